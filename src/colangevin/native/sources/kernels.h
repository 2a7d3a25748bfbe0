/* What every variant of the kernels offers. */
#ifndef COLANGEVIN_KERNELS_H
#define COLANGEVIN_KERNELS_H

#include "job.h"

enum { UNIT = 1 << 14 }; /* elements of a unit of work, more or less */

struct kernels {
    void (*look_at_unit)(struct job *, const struct weight *, int64_t unit);
    void (*move_unit)(struct job *, const struct weight *, int64_t unit, void *room);
    void (*normals_float)(uint64_t key, int64_t start, int64_t count, float *out);
    void (*normals_double)(uint64_t key, int64_t start, int64_t count, double *out);
};

/* How many rows of a sphere are a unit. */
static inline int64_t rows_of_unit(const struct weight *w)
{
    return w->entries < UNIT ? UNIT / w->entries : 1;
}

/* How many units of work a weight is. */
static inline int64_t units_of(const struct weight *w)
{
    int64_t all = w->form == SPHERE ? w->rows : w->elements, one = w->form == SPHERE ? rows_of_unit(w) : UNIT;
    return (all + one - 1) / one;
}

/* The elements of one unit of a weight; of a sphere they are whole rows. */
static inline void stretch(const struct weight *w, int64_t unit, int64_t *start, int64_t *stop)
{
    int64_t length = w->form == SPHERE ? rows_of_unit(w) * w->entries : UNIT;
    *start = unit * length;
    *stop = *start + length < w->elements ? *start + length : w->elements;
}

#endif
