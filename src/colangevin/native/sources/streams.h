/* The keys of the streams of noise.py. */
#ifndef COLANGEVIN_STREAMS_H
#define COLANGEVIN_STREAMS_H

#include "job.h"

static const uint64_t INCREMENT = 0x9E3779B97F4A7C15ull;
static const uint64_t FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9ull;
static const uint64_t SECOND_MULTIPLIER = 0x94D049BB133111EBull;

/* The finaliser of SplitMix64. */
static inline uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * FIRST_MULTIPLIER;
    z = (z ^ (z >> 27)) * SECOND_MULTIPLIER;
    return z ^ (z >> 31);
}

static inline uint64_t extended(uint64_t key, uint64_t word)
{
    return mixed(key + (word + 1) * INCREMENT);
}

/* The key of one draw of the noise of a copy. */
static inline uint64_t draw_key(const struct weight *w, int draw)
{
    uint64_t key = extended(mixed(w->seed + INCREMENT), (uint64_t)*w->step);
    key = extended(extended(key, w->parameter), w->copy);
    return extended(extended(key, (uint64_t)w->program->segment), (uint64_t)draw);
}

#endif
