/* What every variant of the kernels offers. */
#ifndef COLANGEVIN_KERNELS_H
#define COLANGEVIN_KERNELS_H

#include "job.h"

/* Threads, each with room of its own. */
struct hands {
    int64_t threads;
    char *room;
    int64_t room_bytes;         /* of one thread */
};

/* Give units of work to threads; each is called with the room of its thread. */
void share(const struct hands *hands, void (*work)(void *data, int64_t unit, void *room), void *data, int64_t units);

static inline int64_t most_of(int64_t number, int64_t bound) { return number < bound ? number : bound; }

/* How many parts of a length cover all. */
static inline int64_t parts_of(int64_t all, int64_t part) { return (all + part - 1) / part; }

/* The length of so many parts of all, of whole pieces. */
static inline int64_t share_of(int64_t all, int64_t parts, int64_t piece)
{
    return parts_of(parts_of(all, parts), piece) * piece;
}

enum { UNIT = 1 << 14 }; /* elements of a unit of work, more or less */

struct kernels {
    void (*look_at_unit)(struct job *, const struct weight *, int64_t unit);
    void (*move_unit)(struct job *, struct weight *, int64_t unit, void *room);
    void (*move_matrix)(struct job *, struct weight *, int64_t threads, void *room);
    int64_t (*room_of)(const struct weight *, int64_t threads);
    void (*normals_float)(uint64_t key, const struct window *, int64_t start, int64_t count, float *out);
    void (*normals_double)(uint64_t key, const struct window *, int64_t start, int64_t count, double *out);
};

/* Bytes of a number, and of a line of the cache. */
static inline int64_t size_of(int type) { return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2; }
enum { LINE_BYTES = 64 };

/* Ask memory for so many numbers, which are needed later. Always inlined, as is what only calls it: a function that changes
 * nothing may be left out by the compiler. */
static inline __attribute__((always_inline)) void ask_for(const void *numbers, int type, int64_t start, int64_t count)
{
    const char *from = (const char *)numbers + size_of(type) * start, *end = from + size_of(type) * count;
    for (; from < end; from += LINE_BYTES)
        __builtin_prefetch(from);
}

/* Whether rows of a weight move alone. */
static inline int in_rows(const struct weight *w)
{
    return w->form == SPHERE || w->form == SIMPLEX || w->form == LEVEL;
}

/* How many rows that move alone are a unit. */
static inline int64_t rows_of_unit(const struct weight *w)
{
    return w->entries < UNIT ? UNIT / w->entries : 1;
}

/* How many units of work a weight is. */
static inline int64_t units_of(const struct weight *w)
{
    int64_t all = in_rows(w) ? w->rows : w->elements, one = in_rows(w) ? rows_of_unit(w) : UNIT;
    return (all + one - 1) / one;
}

/* The elements of one unit of a weight: whole rows where they move alone. */
static inline void stretch(const struct weight *w, int64_t unit, int64_t *start, int64_t *stop)
{
    int64_t length = in_rows(w) ? rows_of_unit(w) * w->entries : UNIT;
    *start = unit * length;
    *stop = *start + length < w->elements ? *start + length : w->elements;
}

#endif
