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

void(*gemm_float) GEMM(float);
void(*gemm_double) GEMM(double);

/* A hash of the sources that the library was made from. */
EXPORT const char *colangevin_fingerprint(void) { return COLANGEVIN_FINGERPRINT; }

EXPORT const char *colangevin_variant(void) { return variant; }

/* Sizes of the structures, which Python has to have too. */
EXPORT int64_t colangevin_sizes(int which)
{
    const int64_t sizes[] = {sizeof(struct program), sizeof(struct weight), sizeof(struct finding), sizeof(struct job)};
    return which >= 0 && which < 4 ? sizes[which] : -1;
}

/* how many threads the BLAS of this thread takes, and returns how many it took; NULL if that cannot be told */
static int (*set_blas_threads)(int);

/* Take sgemm and dgemm of torch's BLAS, and what sets its threads, if there is one. Returns whether the first two are
 * there and multiply right. */
EXPORT int colangevin_take_blas(void *sgemm, void *dgemm, void *set_threads)
{
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, one = 1, zero = 0;
    const double a_double[] = {1, 2, 3, 4}, b_double[] = {5, 6, 7, 8}, one_double = 1, zero_double = 0;
    const int64_t two = 2;
    float c[4] = {0};
    double c_double[4] = {0};
    if (!sgemm || !dgemm)
        return 0;
    memcpy(&gemm_float, &sgemm, sizeof sgemm);
    memcpy(&gemm_double, &dgemm, sizeof dgemm);
    memcpy(&set_blas_threads, &set_threads, sizeof set_threads);
    gemm_float("N", "N", &two, &two, &two, &one, a, &two, b, &two, &zero, c, &two, 1, 1);
    gemm_double(
        "N", "N", &two, &two, &two, &one_double, a_double, &two, b_double, &two, &zero_double, c_double, &two, 1, 1);
    return c[0] == 23 && c[1] == 34 && c[2] == 31 && c[3] == 46 && c_double[0] == 23 && c_double[1] == 34
        && c_double[2] == 31 && c_double[3] == 46;
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
    char *room;
    int64_t room_bytes, units;
    atomic_llong next_unit, next_room;
};

static void take_units(void *shared)
{
    struct shift *shift = shared;
    char *room = shift->room + atomic_fetch_add(&shift->next_room, 1) * shift->room_bytes;
    for (;;) {
        int64_t unit = atomic_fetch_add(&shift->next_unit, 1);
        if (unit >= shift->units)
            return;
        shift->work(shift->data, unit, room);
    }
}

/* Do all units of work, with that many threads at most. */
static void work_off(struct shift *shift, int64_t threads)
{
    shift->next_unit = shift->next_room = 0;
    threads = threads < shift->units ? threads : shift->units;
    if (threads > 1 && parallel && !forked)
        parallel(take_units, shift, (unsigned)threads, 0);
    else
        take_units(shift);
}

void share(int64_t threads, void (*work)(void *, int64_t, void *), void *data, int64_t units)
{
    struct shift shift = {.work = work, .data = data, .units = units};
    work_off(&shift, threads);
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
        const int64_t room = (kernels->room_of(w) + 63) / 64 * 64;
        const double cost = cost_of(w);
        w->first_unit = job->units;
        w->shared = job->threads > 1 && cost > WORTH_SHARING && cost * 2 * (double)job->threads > all;
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
    struct shift shift = {.work = look_at_unit, .data = job, .room = job->room, .units = job->units};
    int64_t found = 0;
    work_off(&shift, job->threads);
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
    struct shift shift = {
        .work = move_unit, .data = job, .room = job->room, .room_bytes = job->room_bytes, .units = job->units};
    /* in a child of fork BLAS would wait for threads that are gone */
    const int alone = forked && set_blas_threads, before = alone ? set_blas_threads(1) : 0;
    for (int64_t k = 0; k < job->count; k++)
        if (job->weights[k]->shared)
            kernels->move_matrix(job, job->weights[k], job->threads, job->room);
    work_off(&shift, job->threads);
    if (alone)
        set_blas_threads(before);
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
    struct shift shift = {.work = look_at_unit, .data = job, .room = job->room, .units = job->units};
    work_off(&shift, job->threads);
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
    struct shift shift = {.work = draw_unit, .data = &draws, .units = count * draws.units_of_key};
    if (shift.units)
        work_off(&shift, count * numbers > 2 * UNIT ? threads : 1);
}
