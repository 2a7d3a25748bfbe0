/* Weights whose rows move alone, each on the unit sphere as x = q / r.
 *
 * A step is a dozen passes over a row, which stays in the cache.
 */


/* The length of a row. One whose squares would over- or underflow is divided by its largest entry first. */
static inline double NAME(length)(const REAL *RESTRICT x, int64_t n)
{
    double squares;
    SUM(REAL, squares, n, x[i] * x[i]);
    if (squares > FEW(1e-24, 1e-280) && squares < FEW(1e30, 1e280))
        return sqrt(squares);
    REAL peak = 0;
    for (int64_t i = 0; i < n; i++)
        peak = ABS(x[i]) > peak ? ABS(x[i]) : peak;
    if (peak <= FEW(1.17549435e-38f, 2.2250738585072014e-308))
        return 0; /* too short to have a direction */
    SUM(REAL, squares, n, (x[i] / peak) * (x[i] / peak));
    return (double)peak * sqrt(squares);
}

/* Take away from p what lies along the unit vector x; returns the inner product. */
static inline void NAME(project_once)(const REAL *RESTRICT x, REAL *RESTRICT p, int64_t n)
{
    double inner;
    SUM(REAL, inner, n, x[i] * p[i]);
    const REAL normal = (REAL)inner;
    for (int64_t i = 0; i < n; i++)
        p[i] -= normal * x[i];
}

/* The same, again while little is left: of a large normal part the rounding stays behind. */
static inline void NAME(project)(const REAL *RESTRICT x, REAL *RESTRICT p, int64_t n)
{
    double before = NAME(length)(p, n), left;
    for (;;) {
        NAME(project_once)(x, p, n);
        left = NAME(length)(p, n);
        if (!(before > 2 * left) || left == 0)
            return;
        before = left;
    }
}

/* Scale x to length 1; returns 0 for a row at the centre, which has no direction. */
static inline int NAME(normalise)(REAL *RESTRICT x, int64_t n)
{
    const double length = NAME(length)(x, n);
    if (length > FEW(1e-30, 1e-300) && length < FEW(1e30, 1e300)) {
        const REAL unit = (REAL)(1 / length);
        for (int64_t i = 0; i < n; i++)
            x[i] *= unit;
    } else if (length > 0) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (REAL)(x[i] / length);
    }
    return length > 0;
}

/* A: follow the geodesic of p for time a. */
static inline void NAME(drift)(REAL *RESTRICT x, REAL *RESTRICT p, REAL r, REAL a, int64_t n)
{
    const REAL s = (REAL)NAME(length)(p, n);
    if (s == 0)
        return;
    double angle = (double)a * ((double)s / (double)r);
    angle = angle < FEW(3.4e38, 1.7e308) ? angle : FEW(3.4e38, 1.7e308);
    const REAL cosine = (REAL)cos(angle), sine = (REAL)sin(angle);
    const REAL ahead = (REAL)(sin(angle) / (double)s), back = s * sine;
    for (int64_t i = 0; i < n; i++) {
        REAL x_old = x[i];
        x[i] = cosine * x_old + ahead * p[i];
        p[i] = cosine * p[i] - back * x_old;
    }
    NAME(normalise)(x, n);
    NAME(project_once)(x, p, n);
}

/* Add noise to a row. The numbers of a row follow those of the row before. */
static inline void NAME(add_noise)(
    const struct weight *w, int draw, int64_t row, REAL scale, REAL *RESTRICT x, int64_t n)
{
    REAL noise[BLOCK];
    const uint64_t key = draw_key(w, draw);
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int count = n - at < BLOCK ? (int)(n - at) : BLOCK;
        NAME(normals)(key, row * n + at, count, noise);
        for (int i = 0; i < count; i++)
            x[at + i] += scale * noise[i];
    }
}

/* Take factor times the gradient, weight decay included, away from a row; slack has none. */
static inline void NAME(kick)(const struct weight *w, int64_t row, REAL factor, REAL *RESTRICT x)
{
    REAL theta_room[BLOCK], force_room[BLOCK];
    for (int64_t at = 0; at < w->entries; at += BLOCK) {
        const int count = w->entries - at < BLOCK ? (int)(w->entries - at) : BLOCK;
        const int64_t start = row * w->entries + at;
        const REAL *theta = w->decay != 0 ? NAME(read)(w->weight, w->weight_type, start, count, theta_room) : NULL;
        const REAL *force = NAME(force)(w, start, count, theta, force_room);
        for (int i = 0; i < count; i++)
            x[at + i] -= factor * force[i];
    }
}

/* Move the rows from first to last; x is room for one. */
static void NAME(move_rows)(const struct weight *w, int64_t first, int64_t last, REAL *RESTRICT x)
{
    const struct program *program = w->program;
    const int64_t n = w->entries + w->slack;
    for (int64_t row = first; row < last; row++) {
        const REAL r = w->radii ? ((const REAL *)w->radii)[row] : (REAL)w->radius;
        REAL *q = w->position ? (REAL *)w->position + row * w->stride : (REAL *)w->weight + row * n;
        REAL *p = w->momentum ? (REAL *)w->momentum + row * w->stride : NULL;
        int draw = 0;
        for (int64_t i = 0; i < n; i++)
            x[i] = q[i] / r;
        for (int k = 0; k < program->letters; k++) {
            const REAL number = (REAL)program->number[k], scale = (REAL)program->scale[k];
            if (program->letter[k] == 'A') {
                NAME(drift)(x, p, r, number, n);
            } else if (program->letter[k] == 'B') {
                NAME(kick)(w, row, number, p);
                NAME(project)(x, p, n);
            } else {
                for (int64_t i = 0; i < n; i++)
                    p[i] *= number;
                if (program->noisy) {
                    NAME(add_noise)(w, draw++, row, scale, p, n);
                    NAME(project)(x, p, n);
                }
            }
        }
        if (program->letters == 0) {
            NAME(kick)(w, row, (REAL)(program->number[0] / r), x);
            if (program->noisy)
                NAME(add_noise)(w, 0, row, (REAL)(program->scale[0] / r), x, n);
            if (!NAME(normalise)(x, n))
                for (int64_t i = 0; i < n; i++)
                    x[i] = q[i] / r;
            if (p) /* left by steps with momentum: kept, but cotangent where q is now */
                NAME(project)(x, p, n);
        }
        for (int64_t i = 0; i < n; i++)
            q[i] = r * x[i];
        if (w->position)
            NAME(write)(w->weight, w->weight_type, row * w->entries, (int)w->entries, q);
    }
}
