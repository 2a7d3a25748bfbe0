/* Weights whose rows move alone, each on the unit sphere as x = q / r. The weights of a simplex are the squares of x, and
 * r is 1.
 *
 * A step is a few passes over a row, which stays in the cache: one for each O and B, which adds up what the projection
 * needs, and one for each A, which projects and moves.
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

/* A row on its way. Between two A x stays where it is, so that one projection of p does for all letters: it waits for
 * the next A or for the end, as does the factor of p. */
struct NAME(row) {
    REAL *RESTRICT q;
    REAL *RESTRICT p;
    REAL r, unit;  /* the radius and 1 / r */
    REAL faded;    /* the factor of p */
    int64_t n;
    int64_t ahead; /* where the next row is: memory is asked for it while this one is in the cache */
    int gathered;  /* whether p is to be projected, and the sums are known */
    double sums[3]; /* of x^2, x p and p^2 */
};

/* p <- faded p + b z from entry at on: the first piece of a row begins the sums, the last one completes them. */
static inline void NAME(gather)(struct NAME(row) *row, int64_t at, int64_t count, REAL b, const REAL *z)
{
    if (at == 0)
        memset(row->sums, 0, sizeof row->sums);
    NAME(combine)(row->unit, row->q + at, row->faded, row->p + at, b, z, count, row->ahead, row->sums);
    row->gathered = at + count == row->n;
    if (row->gathered)
        row->faded = 1;
}

/* Add up a row whose p is as a letter before has left it. */
static inline void NAME(measure)(struct NAME(row) *row)
{
    row->sums[0] = (double)row->unit * NAME(dot)(row->unit, row->q, row->q, row->n);
    row->sums[1] = NAME(dot)(row->unit, row->q, row->p, row->n);
    row->sums[2] = NAME(dot)(1, row->p, row->p, row->n);
}

/* Take away from p what lies along x. While little is left it is done again: of a large normal part the rounding
 * stays behind. Returns how long p is then. */
static inline double NAME(project)(struct NAME(row) *row)
{
    double along = row->sums[1] / row->sums[0], before = NAME(length)(row->p, row->n, row->sums[2]), left;
    for (;;) {
        left = NAME(length)(row->p, row->n, NAME(add)(row->unit, row->q, row->p, (REAL)-along, row->n));
        if (left == 0) /* p was normal */
            memset(row->p, 0, (size_t)row->n * sizeof(REAL));
        if (!(before > 2 * left) || left == 0)
            break;
        before = left;
        along = NAME(dot)(row->unit, row->q, row->p, row->n) / row->sums[0];
    }
    row->gathered = 0;
    return left;
}

/* The gradient of a row, weight decay included, from entry at on: as many entries as there are in one piece. Where the
 * weights are squares of q it is that with respect to q. */
static inline const REAL *NAME(force_of_row)(
    const struct weight *w, int64_t number, int64_t at, int64_t *count, const REAL *q, REAL *theta_room, REAL *room)
{
    const int64_t start = number * w->entries + at;
    const int squares = w->form == SIMPLEX, plain = w->decay == 0 && !w->maximize && !squares;
    const int as_it_lies = w->gradient_type == FEW(FLOAT32, FLOAT64) && plain;
    *count = as_it_lies || w->entries - at < BLOCK ? w->entries - at : BLOCK;
    if (as_it_lies)
        return (const REAL *)w->gradient + start;
    const REAL *theta = w->decay != 0 ? NAME(read)(w->weight, w->weight_type, start, (int)*count, theta_room) : NULL;
    const REAL *force = NAME(force)(w, start, (int)*count, theta, room);
    if (!squares)
        return force;
    for (int64_t i = 0; i < *count; i++)
        room[i] = 2 * q[at + i] * force[i];
    return room;
}

/* B: p <- p - b G; slack has no gradient. */
static inline void NAME(kick)(const struct weight *w, int64_t number, REAL b, struct NAME(row) *row)
{
    REAL theta_room[BLOCK], room[BLOCK];
    const REAL none = 0;
    for (int64_t at = 0, count; at < w->entries; at += count) {
        const REAL *force = NAME(force_of_row)(w, number, at, &count, row->q, theta_room, room);
        NAME(gather)(row, at, count, -b, force);
    }
    if (w->slack)
        NAME(gather)(row, w->entries, 1, 0, &none);
}

/* The rest of O: p <- p + d R. The numbers of a row follow those of the row before. */
static inline void NAME(shake)(
    uint64_t key, const struct window *window, int64_t number, REAL d, struct NAME(row) *row)
{
    REAL noise[BLOCK];
    for (int64_t at = 0; at < row->n; at += BLOCK) {
        const int count = row->n - at < BLOCK ? (int)(row->n - at) : BLOCK;
        NAME(normals_of_part)(key, window, number * row->n + at, count, noise);
        NAME(gather)(row, at, count, d, noise);
    }
}

/* A: follow the geodesic of p for time a. */
static inline void NAME(drift)(REAL a, struct NAME(row) *row)
{
    if (!row->gathered)
        NAME(measure)(row);
    /* p = along x + a cotangent part, of length s: taken from the sums, unless they have lost too much */
    const double r = row->r, faded = row->faded, xx = row->sums[0], squares = row->sums[2];
    double along = row->sums[1] / xx, left = squares - along * row->sums[1], s;
    if (NAME(moderate)(squares) && squares < 4 * left) {
        s = sqrt(left);
    } else {
        s = NAME(project)(row);
        along = 0;
    }
    if (s == 0)
        return;
    double angle = (double)(REAL)((double)a * (faded * s / r));
    angle = angle < FEW(3.4e38, 1.7e308) ? angle : FEW(3.4e38, 1.7e308);
    const double cosine = cos(angle), sine = sin(angle), one = 1 / sqrt(xx);
    NAME(turn)(
        row->unit, row->q, row->p, (REAL)(r * (cosine * one - sine / s * along)), (REAL)(r * (sine / s)),
        (REAL)(faded * cosine), (REAL)(-faded * (cosine * along + sine * s * one)), row->n, row->ahead);
    row->faded = 1;
    row->gathered = 0;
}

/* Euler and Maruyama's step of a row, projected; x is room for it. */
static inline void NAME(euler_of_row)(
    const struct weight *w, const struct window *window, int64_t number, const uint64_t *keys, struct NAME(row) *row,
    REAL *RESTRICT x)
{
    REAL theta_room[BLOCK], room[BLOCK];
    const struct program *program = w->program;
    const REAL h = (REAL)(program->number[0] / row->r), sigma = (REAL)(program->scale[0] / row->r);
    for (int64_t i = 0; i < row->n; i++)
        x[i] = row->unit * row->q[i];
    for (int64_t at = 0, count; at < w->entries; at += count) {
        const REAL *force = NAME(force_of_row)(w, number, at, &count, row->q, theta_room, room);
        for (int64_t i = 0; i < count; i++)
            x[at + i] -= h * force[i];
    }
    for (int64_t at = 0; program->noisy && at < row->n; at += BLOCK) {
        const int count = row->n - at < BLOCK ? (int)(row->n - at) : BLOCK;
        NAME(normals_of_part)(keys[0], window, number * row->n + at, count, room);
        for (int i = 0; i < count; i++)
            x[at + i] += sigma * room[i];
    }
    const double length = NAME(length)(x, row->n, NAME(dot)(1, x, x, row->n));
    if (length > 0) /* a row that fell on the centre has no direction and stays */
        for (int64_t i = 0; i < row->n; i++)
            row->q[i] = row->r * (REAL)((double)x[i] / length);
    if (row->p) { /* left by steps with momentum: kept, but cotangent where q is now */
        NAME(measure)(row);
        NAME(project)(row);
    }
}

/* Write the weights of a row of a simplex. */
static inline void NAME(write_squares)(const struct weight *w, int64_t number, const REAL *RESTRICT q)
{
    REAL theta[BLOCK];
    for (int64_t at = 0; at < w->entries; at += BLOCK) {
        const int count = w->entries - at < BLOCK ? (int)(w->entries - at) : BLOCK;
        for (int i = 0; i < count; i++)
            theta[i] = q[at + i] * q[at + i];
        NAME(write)(w->weight, w->weight_type, number * w->entries + at, count, theta);
    }
}

/* Write the weights of a row that is where q says, unless that is in the weight itself. */
static inline void NAME(write_row)(const struct weight *w, int64_t number, const REAL *q)
{
    if (w->form == SIMPLEX)
        NAME(write_squares)(w, number, q);
    else if (w->position)
        NAME(write)(w->weight, w->weight_type, number * w->entries, (int)w->entries, q);
}

/* Move the rows from first to last; room is for one. */
static void NAME(move_rows)(const struct weight *w, int64_t first, int64_t last, REAL *room)
{
    const struct program *program = w->program;
    const int64_t n = w->entries + w->slack, most = AHEAD / sizeof(REAL), ahead = n < most ? n : most;
    const int moved = program->letters == 0 || memchr(program->letter, 'A', (size_t)program->letters) != NULL;
    const struct window window = window_on_noise(w, n, w->entries);
    uint64_t keys[MOST_LETTERS];
    draw_keys(w, keys);
    for (int64_t number = first; number < last; number++) {
        const REAL r = w->radii ? ((const REAL *)w->radii)[number] : (REAL)w->radius;
        REAL *q = w->position ? (REAL *)w->position + number * w->stride : (REAL *)w->weight + number * n;
        REAL *p = w->momentum ? (REAL *)w->momentum + number * w->stride : NULL;
        struct NAME(row) row = {.q = q, .p = p, .r = r, .unit = 1 / r, .faded = 1, .n = n, .ahead = ahead};
        for (int k = 0; k < program->letters; k++) {
            const REAL at = (REAL)program->number[k];
            if (program->letter[k] == 'A')
                NAME(drift)(at, &row);
            else if (program->letter[k] == 'B')
                NAME(kick)(w, number, at, &row);
            else
                row.faded *= at;
            if (program->letter[k] == 'O' && program->noisy)
                NAME(shake)(keys[k], &window, number, (REAL)program->scale[k], &row);
        }
        if (program->letters == 0)
            NAME(euler_of_row)(w, &window, number, keys, &row, room);
        if (row.gathered)
            NAME(project)(&row);
        if (row.faded != 1)
            for (int64_t i = 0; i < n; i++)
                p[i] *= row.faded;
        if (moved)
            NAME(write_row)(w, number, q);
    }
}
