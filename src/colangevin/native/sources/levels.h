/* Weights whose rows move alone, each on the plane of the rows with one mean.
 *
 * A plane has the same normal everywhere, so that one projection of p does for all letters between two A.
 */

static inline double NAME(mean)(const REAL *x, int64_t n)
{
    double sum;
    SUM(REAL, sum, n, x[i]);
    return sum / (double)n;
}

/* Subtract a number from a row. */
static inline void NAME(lower_by)(REAL *RESTRICT x, REAL number, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] -= number;
}

/* Take away the mean of p. While little is left it is done again: of a large mean the rounding stays behind. */
static inline void NAME(level_out)(REAL *RESTRICT p, int64_t n)
{
    double before = NAME(length)(p, n, NAME(dot)(1, p, p, n)), left;
    for (;;) {
        NAME(lower_by)(p, (REAL)NAME(mean)(p, n), n);
        left = NAME(length)(p, n, NAME(dot)(1, p, p, n));
        if (left == 0)
            memset(p, 0, (size_t)n * sizeof(REAL));
        if (!(before > 2 * left) || left == 0)
            return;
        before = left;
    }
}

/* Give q its mean. While little is left it is done again, as for p. */
static inline void NAME(set_level)(REAL *RESTRICT q, REAL level, int64_t n)
{
    for (;;) {
        const double off = NAME(mean)(q, n) - (double)level;
        NAME(lower_by)(q, (REAL)off, n);
        const double left = NAME(length)(q, n, NAME(dot)(1, q, q, n));
        if (left == 0 || !(fabs(off) * sqrt((double)n) > left))
            return;
    }
}

/* x <- faded x - b G, for p, or for a q that may be the weight which decays. */
static inline void NAME(kick_level)(const struct weight *w, int64_t number, REAL faded, REAL b, REAL *x)
{
    REAL theta_room[BLOCK], room[BLOCK];
    for (int64_t at = 0, count; at < w->entries; at += count) {
        const REAL *force = NAME(force_of_row)(w, number, at, &count, NULL, theta_room, room);
        for (int64_t i = 0; i < count; i++)
            x[at + i] = FMA(-b, force[i], faded * x[at + i]);
    }
}

/* x <- faded x + d R. The numbers of a row follow those of the row before. */
static inline void NAME(shake_level)(
    const struct weight *w, uint64_t key, int64_t number, REAL faded, REAL d, REAL *RESTRICT x)
{
    REAL noise[BLOCK];
    const int64_t n = w->entries;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int count = n - at < BLOCK ? (int)(n - at) : BLOCK;
        NAME(normals_of_part)(key, &w->window, number * n + at, count, noise);
        for (int i = 0; i < count; i++)
            x[at + i] = FMA(d, noise[i], faded * x[at + i]);
    }
}

/* Project p if it has been kicked or shaken, then follow its straight line for time a. The mean of q is set right in the
 * same pass: what rounding did to it in the step before would add up. */
static inline void NAME(drift_level)(
    REAL level, REAL a, int projected, REAL faded, REAL *RESTRICT q, REAL *RESTRICT p, int64_t n)
{
    const double off = NAME(mean)(q, n) - (double)level;
    double along = 0;
    if (!projected) {
        along = NAME(mean)(p, n);
        const double squares = NAME(dot)(1, p, p, n), left = squares - along * along * (double)n;
        if (!NAME(moderate)(squares) || !(squares < 4 * left)) {
            NAME(level_out)(p, n);
            along = 0;
        }
    }
    const REAL down = (REAL)off, mean = (REAL)along;
    for (int64_t i = 0; i < n; i++) {
        p[i] = faded * (p[i] - mean);
        q[i] = FMA(a, p[i], q[i] - down);
    }
}

/* Move the rows from first to last. */
static void NAME(move_levels)(const struct weight *w, int64_t first, int64_t last)
{
    const struct program *program = w->program;
    const int64_t n = w->entries;
    const int moved = program->letters == 0 || memchr(program->letter, 'A', (size_t)program->letters) != NULL;
    const REAL level = (REAL)w->radius;
    uint64_t keys[MOST_LETTERS];
    draw_keys(w, keys);
    for (int64_t number = first; number < last; number++) {
        REAL *q = (REAL *)(w->position ? w->position : w->weight) + number * n;
        REAL *p = w->momentum ? (REAL *)w->momentum + number * n : NULL, faded = 1;
        int projected = 1;
        for (int k = 0; k < program->letters; k++) {
            const REAL at = (REAL)program->number[k];
            if (program->letter[k] == 'A') {
                NAME(drift_level)(level, at, projected, faded, q, p, n);
                projected = 1;
                faded = 1;
            } else if (program->letter[k] == 'B') {
                NAME(kick_level)(w, number, faded, at, p);
                projected = 0;
                faded = 1;
            } else if (program->noisy) {
                NAME(shake_level)(w, keys[k], number, faded * at, (REAL)program->scale[k], p);
                projected = 0;
                faded = 1;
            } else {
                faded *= at;
            }
        }
        if (program->letters == 0) {
            NAME(kick_level)(w, number, 1, (REAL)program->number[0], q);
            if (program->noisy)
                NAME(shake_level)(w, keys[0], number, 1, (REAL)program->scale[0], q);
            NAME(set_level)(q, level, n);
        }
        if (!projected)
            NAME(level_out)(p, n);
        if (faded != 1)
            for (int64_t i = 0; i < n; i++)
                p[i] *= faded;
        if (moved && w->position)
            NAME(write)(w->weight, w->weight_type, number * n, (int)n, q);
    }
}
