/* What Python calls: a job is cut into units of work, which threads take one after the other. */

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "kernels.h"

#define EXPORT __attribute__((visibility("default")))
#define WORTH_SHARING 1e6 /* products and sums of a matrix that take longer than a call to all threads */

extern const struct kernels kernels_baseline;
#ifdef COLANGEVIN_X86
extern const struct kernels kernels_avx2, kernels_avx512;
#endif

static const struct kernels *kernels = &kernels_baseline;
static const char *variant = "baseline";

/* torch's own pool of threads: a second one would fight with it for the cores */
typedef void (*parallel_function)(void (*)(void *), void *, unsigned, unsigned);
static parallel_function parallel;
static atomic_int forked; /* in a child of fork the threads of the pool are gone */

static void note_fork(void) { forked = 1; }

/* A hash of the sources that the library was made from. */
EXPORT const char *colangevin_fingerprint(void) { return COLANGEVIN_FINGERPRINT; }

EXPORT const char *colangevin_variant(void) { return variant; }

/* Sizes of the structures, which Python has to have too. */
EXPORT int64_t colangevin_sizes(int which)
{
    const int64_t sizes[] = {sizeof(struct program), sizeof(struct weight), sizeof(struct finding), sizeof(struct job)};
    return which >= 0 && which < 4 ? sizes[which] : -1;
}

/* Take GOMP_parallel of torch's OpenMP, or NULL, and the fastest variant that the processor runs and the caller
 * allows: at most 2 for AVX-512, 1 for AVX2, 0 for neither. */
EXPORT void colangevin_begin(void *gomp_parallel, int most)
{
    static atomic_int begun;
    parallel = (parallel_function)gomp_parallel;
    kernels = &kernels_baseline;
    variant = "baseline";
#ifdef COLANGEVIN_X86
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
              && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (most >= 1 && avx2) {
        kernels = &kernels_avx2;
        variant = "avx2";
    }
    if (most >= 2 && avx512) {
        kernels = &kernels_avx512;
        variant = "avx512";
    }
#else
    (void)most;
#endif
    if (!atomic_exchange(&begun, 1))
        pthread_atfork(NULL, NULL, note_fork);
}

/* ---- threads ---------------------------------------------------------------------------------- */

struct shift {
    void (*work)(void *data, int64_t unit, void *room);
    void *data;
    const struct hands *hands;
    int64_t units;
    atomic_llong next_unit, next_room;
};

static void take_units(void *shared)
{
    struct shift *shift = shared;
    char *room = shift->hands->room + atomic_fetch_add(&shift->next_room, 1) * shift->hands->room_bytes;
    for (;;) {
        int64_t unit = atomic_fetch_add(&shift->next_unit, 1);
        if (unit >= shift->units)
            return;
        shift->work(shift->data, unit, room);
    }
}

void share(const struct hands *hands, void (*work)(void *, int64_t, void *), void *data, int64_t units)
{
    struct shift shift = {.work = work, .data = data, .hands = hands, .units = units};
    const int64_t threads = most_of(hands->threads, units);
    if (threads > 1 && parallel && !forked)
        parallel(take_units, &shift, (unsigned)threads, 0);
    else
        take_units(&shift);
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* The weight that a unit belongs to: the last whose first unit is not beyond it. */
static struct weight *weight_of(const struct job *job, int64_t unit)
{
    int64_t low = 0, high = job->count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (job->weights[middle]->first_unit <= unit)
            low = middle;
        else
            high = middle;
    }
    return job->weights[low];
}

static void look_at_unit(void *data, int64_t unit, void *room)
{
    (void)room;
    kernels->look_at_unit(data, weight_of(data, unit), unit);
}

static void move_unit(void *data, int64_t unit, void *room)
{
    kernels->move_unit(data, weight_of(data, unit), unit, room);
}

static uint64_t joined_checksum(const struct job *job, const struct weight *w)
{
    uint64_t sum = 0;
    for (int64_t unit = 0; unit < units_of(w); unit++)
        sum = sum * 0x9E3779B97F4A7C15ull + job->findings[w->first_unit + unit].checksum;
    return sum;
}

/* Products and sums that the step of a matrix takes, more or less. */
static double cost_of(const struct weight *w)
{
    const double shorter = (double)(w->rows < w->entries ? w->rows : w->entries);
    return w->form == FRAME ? shorter * (double)w->elements : 0;
}

/* Give every weight its units of work; returns how many there are. A matrix is shared by all threads where one thread
 * alone would be at it when the others have nothing left to do. */
EXPORT int64_t colangevin_plan(struct job *job)
{
    double all = 0;
    int64_t largest = 0;
    job->units = job->room_bytes = 0;
    for (int64_t k = 0; k < job->count; k++)
        all += cost_of(job->weights[k]);
    for (int64_t k = 0; k < job->count; k++) {
        struct weight *w = job->weights[k];
        const double cost = cost_of(w);
        w->first_unit = job->units;
        w->shared = job->threads > 1 && cost > WORTH_SHARING && cost * 2 * (double)job->threads > all;
        const int64_t room = parts_of(kernels->room_of(w, w->shared ? job->threads : 1), 64) * 64;
        job->units += units_of(w);
        if (w->shared)
            largest = room > largest ? room : largest;
        else
            job->room_bytes = room > job->room_bytes ? room : job->room_bytes;
    }
    job->whole_room_bytes = job->room_bytes * job->threads > largest ? job->room_bytes * job->threads : largest;
    return job->units;
}

/* Look at every gradient and weight; returns how many weights are doubtful or edited. Nothing else is written. */
EXPORT int64_t colangevin_look(struct job *job)
{
    const struct hands hands = {job->threads, job->room, 0};
    int64_t found = 0;
    share(&hands, look_at_unit, job, job->units);
    for (int64_t k = 0; k < job->count; k++) {
        struct weight *w = job->weights[k];
        double squares = 0;
        for (int64_t unit = 0; unit < units_of(w); unit++)
            squares += job->findings[w->first_unit + unit].squares;
        w->doubtful = !(sqrt(squares) <= w->bound);
        w->edited = joined_checksum(job, w) != w->left;
        found += w->doubtful || w->edited;
    }
    return found;
}

/* Move every weight through its program, and count the steps that end. */
EXPORT void colangevin_move(struct job *job)
{
    const struct hands hands = {job->threads, job->room, job->room_bytes};
    for (int64_t k = 0; k < job->count; k++)
        if (job->weights[k]->shared)
            kernels->move_matrix(job, job->weights[k], job->threads, job->room);
    share(&hands, move_unit, job, job->units);
    for (int64_t k = 0; k < job->count; k++) {
        struct weight *w = job->weights[k];
        w->left = joined_checksum(job, w);
        if (w->counts && w->program->completes)
            ++*w->step;
    }
}

/* Sum up all weights again, when the host has moved some of them. */
EXPORT void colangevin_remember(struct job *job)
{
    const struct hands hands = {job->threads, job->room, 0};
    share(&hands, look_at_unit, job, job->units);
    for (int64_t k = 0; k < job->count; k++)
        job->weights[k]->left = joined_checksum(job, job->weights[k]);
}

/* ---- noise ------------------------------------------------------------------------------------ */

struct draws {
    const uint64_t *keys;
    int64_t numbers, units_of_key;
    struct window window;
    char *out;
    int in_double;
};

static void draw_unit(void *data, int64_t unit, void *room)
{
    const struct draws *draws = data;
    int64_t key = unit / draws->units_of_key, at = unit % draws->units_of_key * UNIT;
    int64_t count = draws->numbers - at < UNIT ? draws->numbers - at : UNIT;
    (void)room;
    if (draws->in_double)
        kernels->normals_double(
            draws->keys[key], &draws->window, at, count, (double *)draws->out + key * draws->numbers + at);
    else
        kernels->normals_float(
            draws->keys[key], &draws->window, at, count, (float *)draws->out + key * draws->numbers + at);
}

/* Standard normals: so many for each key, which a window has of more. */
EXPORT void colangevin_normals(
    const uint64_t *keys, int64_t count, int64_t numbers, int64_t first, int64_t length, int64_t stride, int in_double,
    void *out, int64_t threads)
{
    struct draws draws = {keys, numbers, (numbers + UNIT - 1) / UNIT, {first, length, stride}, out, in_double};
    const struct hands hands = {count * numbers > 2 * UNIT ? threads : 1, NULL, 0};
    share(&hands, draw_unit, &draws, count * draws.units_of_key);
}
