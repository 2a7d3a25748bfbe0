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

/* A weight's window on noise of so many numbers for every so many elements. */
static inline struct window window_on_noise(const struct weight *w, int64_t numbers, int64_t elements)
{
    const struct window *own = &w->window;
    struct window found = {
        own->first / elements * numbers, own->length / elements * numbers, own->stride / elements * numbers};
    return found;
}

/* The keys of the draws of a copy's noise: one for each O, or one for the overdamped step. */
static inline void draw_keys(const struct weight *w, uint64_t *keys)
{
    const struct program *program = w->program;
    uint64_t key = extended(mixed(w->seed + INCREMENT), (uint64_t)*w->step);
    key = extended(extended(extended(key, w->word), w->copy), (uint64_t)program->segment);
    uint64_t draw = 0;
    if (!program->noisy)
        return;
    if (program->letters == 0)
        keys[0] = extended(key, 0);
    for (int k = 0; k < program->letters; k++)
        if (program->letter[k] == 'O')
            keys[k] = extended(key, draw++);
}

#endif
