/* The kernels of one variant: this file is compiled once for each set of instructions. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "halves.h"
#include "job.h"
#include "kernels.h"
#include "streams.h"
#include "sums.h"

#define RESTRICT restrict

/* elements whose numbers stay in the first-level cache between the letters; pairs of normals made at a time */
enum { BLOCK = 256, PAIRS = BLOCK / 2 };

/* bytes that memory is asked for ahead of a pass over rows at most: more would be gone from the cache before its turn */
enum { AHEAD = 4096 };

/* a little less, so that it is one in both types */
#define RIGHT_ANGLE ((REAL)1.5707)

#define DOUBLE 0
#include "real.h"
#define DOUBLE 1
#include "real.h"

#include "look.h"

static void look_at_unit(struct job *job, const struct weight *w, int64_t unit)
{
    int64_t start, stop;
    stretch(w, unit - w->first_unit, &start, &stop);
    job->findings[unit].squares = squares(w, start, stop);
    job->findings[unit].checksum = checksum(w, start, stop);
}

static void move_unit(struct job *job, const struct weight *w, int64_t unit, void *room)
{
    int64_t start, stop;
    stretch(w, unit - w->first_unit, &start, &stop);
    if (w->form == SPHERE && w->state_type == FLOAT64)
        move_rows_double(w, start / w->entries, stop / w->entries, (double *)room);
    else if (w->form == SPHERE)
        move_rows_float(w, start / w->entries, stop / w->entries, (float *)room);
    else if (w->form == CIRCLE && w->state_type == FLOAT64)
        move_angles_double(w, start, stop);
    else if (w->form == CIRCLE)
        move_angles_float(w, start, stop);
    else if (w->state_type == FLOAT64)
        move_lines_double(w, start, stop);
    else
        move_lines_float(w, start, stop);
    job->findings[unit].checksum = checksum(w, start, stop);
}

const struct kernels KERNELS = {
    .look_at_unit = look_at_unit,
    .move_unit = move_unit,
    .normals_float = normals_float,
    .normals_double = normals_double,
};
