/* Weights whose rows move alone, each on the unit sphere as x = q / r.
 *
 * A step is a few passes over a row, which stays in the cache.
 */

/* Squares between which a sum of them has lost nothing to over- or underflow. */
static inline int NAME(moderate)(double squares)
{
    return squares > FEW(1e-24, 1e-280) && squares < FEW(1e30, 1e280);
}

/* The length of a row whose squares have been added up. If they over- or underflow, it is divided by its largest entry. */
static inline double NAME(length)(const REAL *RESTRICT x, int64_t n, double squares)
{
    if (NAME(moderate)(squares))
        return sqrt(squares);
    double peak = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        peak = ABS(x[i]) > peak ? (double)ABS(x[i]) : peak;
    if (peak <= FEW(1.17549435e-38, 2.2250738585072014e-308))
        return 0; /* too short to have a direction */
    for (int64_t i = 0; i < n; i++)
        sum += ((double)x[i] / peak) * ((double)x[i] / peak);
    return peak * sqrt(sum);
}

/* A row on its way. Two factors wait for the next pass, which multiplies by them. */
struct NAME(row) {
    REAL *RESTRICT x; /* the unit vector, but for its factor */
    REAL *RESTRICT p;
    REAL grown, faded; /* the factors of x and of p */
    int64_t n;
    double squares; /* of p, when known is set */
    int known;
};

/* Make x the unit vector that it stands for. */
static inline void NAME(ready)(struct NAME(row) *row)
{
    if (row->grown != 1)
        for (int64_t i = 0; i < row->n; i++)
            row->x[i] *= row->grown;
    row->grown = 1;
}

/* Take away from p what lies along x. While little is left it is done again: of a large normal part the rounding
 * stays behind. */
static inline void NAME(project)(struct NAME(row) *row, double along, double squares)
{
    double before = NAME(length)(row->p, row->n, squares);
    for (;;) {
        row->squares = NAME(add)(row->x, row->p, (REAL)-along, row->n);
        double left = NAME(length)(row->p, row->n, row->squares);
        if (left == 0) /* p was normal */
            memset(row->p, 0, (size_t)row->n * sizeof(REAL));
        if (!(before > 2 * left) || left == 0)
            break;
        before = left;
        along = NAME(dot)(row->x, row->p, row->n);
    }
    row->known = 1;
}

/* The gradient of a row, weight decay included, from entry at on: as many entries as there are in one piece. */
static inline const REAL *NAME(force_of_row)(
    const struct weight *w, int64_t number, int64_t at, int64_t *count, REAL *theta_room, REAL *room)
{
    const int64_t start = number * w->entries + at;
    const int as_it_lies = w->gradient_type == FEW(FLOAT32, FLOAT64) && w->decay == 0 && !w->maximize;
    *count = as_it_lies || w->entries - at < BLOCK ? w->entries - at : BLOCK;
    if (as_it_lies)
        return (const REAL *)w->gradient + start;
    const REAL *theta = w->decay != 0 ? NAME(read)(w->weight, w->weight_type, start, (int)*count, theta_room) : NULL;
    return NAME(force)(w, start, (int)*count, theta, room);
}

/* B: p <- p - b G, projected; slack has no gradient. */
static inline void NAME(kick)(const struct weight *w, int64_t number, REAL b, struct NAME(row) *row)
{
    REAL theta_room[BLOCK], room[BLOCK];
    const REAL none = 0;
    double along = 0, squares = 0;
    NAME(ready)(row);
    for (int64_t at = 0, count; at < w->entries; at += count) {
        const REAL *force = NAME(force_of_row)(w, number, at, &count, theta_room, room);
        NAME(combine)(row->x + at, row->p + at, force, row->faded, -b, count, &along, &squares);
    }
    if (w->slack)
        NAME(combine)(row->x + w->entries, row->p + w->entries, &none, row->faded, 0, 1, &along, &squares);
    row->faded = 1;
    NAME(project)(row, along, squares);
}

/* The rest of O: p <- p + d R, projected. The numbers of a row follow those of the row before. */
static inline void NAME(shake)(uint64_t key, int64_t number, REAL d, struct NAME(row) *row)
{
    REAL noise[BLOCK];
    double along = 0, squares = 0;
    NAME(ready)(row);
    for (int64_t at = 0; at < row->n; at += BLOCK) {
        const int count = row->n - at < BLOCK ? (int)(row->n - at) : BLOCK;
        NAME(normals)(key, number * row->n + at, count, noise);
        NAME(combine)(row->x + at, row->p + at, noise, row->faded, d, count, &along, &squares);
    }
    row->faded = 1;
    NAME(project)(row, along, squares);
}

/* A: follow the geodesic of p for time a. */
static inline void NAME(drift)(REAL r, REAL a, struct NAME(row) *row)
{
    const double squares = row->known ? row->squares : NAME(dot)(row->p, row->p, row->n);
    const double faded = row->faded, s = faded * NAME(length)(row->p, row->n, squares);
    if (s == 0)
        return;
    double angle = (double)(REAL)((double)a * (s / (double)r)), xx, xp;
    angle = angle < FEW(3.4e38, 1.7e308) ? angle : FEW(3.4e38, 1.7e308);
    const double cosine = cos(angle), sine = sin(angle);
    NAME(ready)(row);
    NAME(turn)(
        row->x, row->p, (REAL)cosine, (REAL)(sine * faded / s), (REAL)(cosine * faded), (REAL)(sine * s), row->n, &xx,
        &xp);
    /* away with what of p lies along x, which has to become 1 long */
    NAME(add)(row->x, row->p, (REAL)(-xp / xx), row->n);
    row->grown = (REAL)(1 / sqrt(xx));
    row->faded = 1;
    row->known = 0;
}

/* Euler and Maruyama's step of a row, projected; q is where it starts. */
static inline void NAME(euler_of_row)(
    const struct weight *w, int64_t number, REAL r, const REAL *RESTRICT q, const uint64_t *keys, struct NAME(row) *row)
{
    REAL theta_room[BLOCK], room[BLOCK];
    const struct program *program = w->program;
    const REAL h = (REAL)(program->number[0] / r), sigma = (REAL)(program->scale[0] / r);
    for (int64_t at = 0, count; at < w->entries; at += count) {
        const REAL *force = NAME(force_of_row)(w, number, at, &count, theta_room, room);
        for (int64_t i = 0; i < count; i++)
            row->x[at + i] -= h * force[i];
    }
    for (int64_t at = 0; program->noisy && at < row->n; at += BLOCK) {
        const int count = row->n - at < BLOCK ? (int)(row->n - at) : BLOCK;
        NAME(normals)(keys[0], number * row->n + at, count, room);
        for (int i = 0; i < count; i++)
            row->x[at + i] += sigma * room[i];
    }
    const double length = NAME(length)(row->x, row->n, NAME(dot)(row->x, row->x, row->n));
    for (int64_t i = 0; i < row->n; i++) /* a row that fell on the centre has no direction and stays */
        row->x[i] = length > 0 ? (REAL)((double)row->x[i] / length) : q[i] / r;
    if (row->p) /* left by steps with momentum: kept, but cotangent where q is now */
        NAME(project)(row, NAME(dot)(row->x, row->p, row->n), NAME(dot)(row->p, row->p, row->n));
}

/* Move the rows from first to last; x is room for one. */
static void NAME(move_rows)(const struct weight *w, int64_t first, int64_t last, REAL *RESTRICT x)
{
    const struct program *program = w->program;
    const int64_t n = w->entries + w->slack;
    const int moved = program->letters == 0 || memchr(program->letter, 'A', (size_t)program->letters) != NULL;
    uint64_t keys[MOST_LETTERS];
    draw_keys(w, keys);
    for (int64_t number = first; number < last; number++) {
        const REAL r = w->radii ? ((const REAL *)w->radii)[number] : (REAL)w->radius, unit = 1 / r;
        REAL *RESTRICT q = w->position ? (REAL *)w->position + number * w->stride : (REAL *)w->weight + number * n;
        REAL *p = w->momentum ? (REAL *)w->momentum + number * w->stride : NULL;
        struct NAME(row) row = {.x = x, .p = p, .grown = 1, .faded = 1, .n = n, .known = 0};
        for (int64_t i = 0; i < n; i++)
            x[i] = q[i] * unit;
        for (int k = 0; k < program->letters; k++) {
            const REAL at = (REAL)program->number[k];
            if (program->letter[k] == 'A')
                NAME(drift)(r, at, &row);
            else if (program->letter[k] == 'B')
                NAME(kick)(w, number, at, &row);
            else
                row.faded *= at;
            if (program->letter[k] == 'O' && program->noisy)
                NAME(shake)(keys[k], number, (REAL)program->scale[k], &row);
        }
        if (program->letters == 0)
            NAME(euler_of_row)(w, number, r, q, keys, &row);
        if (row.faded != 1)
            for (int64_t i = 0; i < n; i++)
                p[i] *= row.faded;
        if (!moved) /* a segment without an A */
            continue;
        for (int64_t i = 0; i < n; i++)
            q[i] = r * row.grown * x[i];
        if (w->position)
            NAME(write)(w->weight, w->weight_type, number * w->entries, (int)w->entries, q);
    }
}
