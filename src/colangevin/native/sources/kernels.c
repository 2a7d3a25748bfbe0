/* The kernels of one variant: this file is compiled once for each set of instructions. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "halves.h"
#include "job.h"
#include "kernels.h"
#include "lanes.h"
#include "limits.h"
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
    ask_for_samples(w, start, stop);
    job->findings[unit].squares = squares(w, start, stop);
    job->findings[unit].checksum = checksum(w, start, stop);
}

/* Move a matrix, and sum up all of its units. */
static void move_matrix(struct job *job, struct weight *w, int64_t threads, void *room)
{
    w->rounds = w->polar = 0;
    w->left_out = !(w->state_type == FLOAT64 ? move_frame_double(w, threads, room) : move_frame_float(w, threads, room));
    for (int64_t unit = 0; unit < units_of(w); unit++) {
        int64_t start, stop;
        stretch(w, unit, &start, &stop);
        job->findings[w->first_unit + unit].checksum = checksum(w, start, stop);
    }
}

/* Bytes of room that moving a unit of a weight takes, or a matrix at which so many threads work. */
static int64_t room_of(const struct weight *w, int64_t threads)
{
    if (w->form == FRAME)
        return w->state_type == FLOAT64 ? frame_room_double(w, threads) : frame_room_float(w, threads);
    return in_rows(w) ? (w->entries + w->slack) * (int64_t)sizeof(double) : 0;
}

static void move_unit(struct job *job, struct weight *w, int64_t unit, void *room)
{
    int64_t start, stop;
    if (w->form == FRAME) { /* moved as a whole, by whoever takes its first unit or by all threads before */
        if (unit == w->first_unit && !w->shared)
            move_matrix(job, w, 1, room);
        return;
    }
    stretch(w, unit - w->first_unit, &start, &stop);
    if (w->state_type == FLOAT64)
        move_stretch_double(w, start, stop, (double *)room);
    else
        move_stretch_float(w, start, stop, (float *)room);
    job->findings[unit].checksum = checksum(w, start, stop);
}

const struct kernels KERNELS = {
    .look_at_unit = look_at_unit,
    .move_unit = move_unit,
    .move_matrix = move_matrix,
    .room_of = room_of,
    .normals_float = normals_of_part_float,
    .normals_double = normals_of_part_double,
};
