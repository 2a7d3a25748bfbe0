/* What every variant of the kernels offers. */
#ifndef COLANGEVIN_KERNELS_H
#define COLANGEVIN_KERNELS_H

#include <stddef.h>

#include "job.h"

/* Give units of work to so many threads; each is called with room of its own, or NULL. */
void share(int64_t threads, void (*work)(void *data, int64_t unit, void *room), void *data, int64_t units);

/* torch's products of matrices, as Fortran has them: C <- scale A B + keep C. NULL where torch has none. Its whole numbers
 * have 32 bits, or 64 in some builds, which read the same from memory that holds 64. */
#define GEMM(REAL)                                                                                                   \
    (const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const REAL *, const REAL *,      \
     const int64_t *, const REAL *, const int64_t *, const REAL *, REAL *, const int64_t *, size_t, size_t)
extern void(*gemm_float) GEMM(float);
extern void(*gemm_double) GEMM(double);

enum { UNIT = 1 << 14 }; /* elements of a unit of work, more or less */

struct kernels {
    void (*look_at_unit)(struct job *, const struct weight *, int64_t unit);
    void (*move_unit)(struct job *, struct weight *, int64_t unit, void *room);
    void (*move_matrix)(struct job *, struct weight *, int64_t threads, void *room);
    int64_t (*room_of)(const struct weight *);
    void (*normals_float)(uint64_t key, const struct window *, int64_t start, int64_t count, float *out);
    void (*normals_double)(uint64_t key, const struct window *, int64_t start, int64_t count, double *out);
};

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
