/* Adam's step: averages m of tangent gradients and v of their squares, and a move along m over the root of v.
 *
 *     g = tangent gradient,  m <- m + (1 - beta_1) (g - m),  v <- beta_2 v + (1 - beta_2) g^2,
 *     d = m / (sqrt(v) / sqrt(1 - beta_2^t) + eps),  q <- A(q, -d, lr / (1 - beta_1^t)).
 *
 * Weight decay is no part of the gradient: it moves a weight by lr times decay times itself, along its constraint. Squares and
 * quotients are in units of length: on a circle they are those of the arc.
 */

struct NAME(adam) {
    REAL lr, decay; /* of the weight */
    REAL move;      /* lr / (1 - beta_1^t) */
    REAL first;     /* 1 - beta_1 */
    REAL keep, second; /* beta_2 and 1 - beta_2 */
    REAL unbias;    /* 1 / sqrt(1 - beta_2^t) */
    REAL eps;
};

/* The numbers of a weight's step, which is the one after those that it has taken. */
static struct NAME(adam) NAME(adam_of)(const struct weight *w)
{
    const double *number = w->program->number, t = (double)(*w->step + 1);
    const double beta_1 = number[FIRST_BETA], beta_2 = number[SECOND_BETA];
    return (struct NAME(adam)){
        .lr = (REAL)number[RATE], .decay = (REAL)number[DECAY], .move = (REAL)(number[RATE] / (1 - pow(beta_1, t))),
        .first = (REAL)(1 - beta_1), .keep = (REAL)beta_2, .second = (REAL)(1 - beta_2),
        .unbias = (REAL)(1 / sqrt(1 - pow(beta_2, t))), .eps = (REAL)number[EPS]};
}

/* Take g into both averages. */
static inline void NAME(average)(
    const struct NAME(adam) *adam, int64_t n, const REAL *RESTRICT g, REAL *RESTRICT m, REAL *RESTRICT v)
{
    for (int64_t i = 0; i < n; i++) {
        m[i] = FMA(adam->first, g[i] - m[i], m[i]);
        v[i] = FMA(adam->second * g[i], g[i], adam->keep * v[i]);
    }
}

/* d of one entry; eps is not 0. */
static inline REAL NAME(quotient)(const struct NAME(adam) *adam, REAL m, REAL v)
{
    return m / FMA(SQRT(v), adam->unbias, adam->eps);
}

/* ---- elements -------------------------------------------------------------------------------- */

static inline void NAME(adam_on_lines)(
    const struct NAME(adam) *adam, int count, const REAL *RESTRICT force, REAL *RESTRICT q, REAL *RESTRICT m,
    REAL *RESTRICT v)
{
    const REAL left = 1 - adam->lr * adam->decay;
    NAME(average)(adam, count, force, m, v);
    for (int i = 0; i < count; i++)
        q[i] = FMA(-adam->move, NAME(quotient)(adam, m[i], v[i]), left * q[i]);
}

/* On circles m is that of the angle, and v that of the arc. */
static inline void NAME(adam_on_circles)(
    const struct NAME(adam) *adam, int count, const REAL *RESTRICT force, const REAL *RESTRICT r, REAL *RESTRICT q,
    REAL *RESTRICT m, REAL *RESTRICT v)
{
    REAL cosine[BLOCK], pull[BLOCK] = {0};
    const REAL rate = adam->lr * adam->decay;
    if (NAME(all_within)(q, count, RIGHT_ANGLE)) /* most blocks, and at half the price */
        for (int i = 0; i < count; i++)
            cosine[i] = NAME(cosine_near_zero)(q[i]);
    else
        for (int i = 0; i < count; i++)
            cosine[i] = NAME(cosine)(q[i]);
    for (int i = 0; rate != 0 && i < count; i++)
        pull[i] = rate * (cosine[i] * NAME(sine)(q[i]));
    for (int i = 0; i < count; i++) {
        const REAL arc = cosine[i] * force[i], unit = 1 / r[i];
        m[i] = FMA(adam->first, FMA(arc, unit, -m[i]), m[i]);
        v[i] = FMA(adam->second * arc, arc, adam->keep * v[i]);
        q[i] -= FMA(adam->move * NAME(quotient)(adam, m[i] * r[i], v[i]), unit, pull[i]);
    }
}

static inline void NAME(adam_on_roots)(
    const struct NAME(adam) *adam, int count, const REAL *RESTRICT force, REAL *RESTRICT q, REAL *RESTRICT m,
    REAL *RESTRICT v)
{
    REAL g[BLOCK];
    const REAL rate = 2 * adam->lr * adam->decay;
    for (int i = 0; i < count; i++)
        g[i] = 2 * q[i] * force[i];
    NAME(average)(adam, count, g, m, v);
    for (int i = 0; i < count; i++)
        q[i] -= FMA(adam->move, NAME(quotient)(adam, m[i], v[i]), rate * (q[i] * q[i] * q[i]));
}

/* Move the elements from start to stop that move alone. */
static void NAME(move_by_adam)(const struct weight *w, int64_t start, int64_t stop)
{
    REAL theta_room[BLOCK], force_room[BLOCK], radius_room[BLOCK];
    const struct NAME(adam) adam = NAME(adam_of)(w);
    const int whole = w->weight_type == FEW(FLOAT32, FLOAT64);
    for (int i = 0; i < BLOCK; i++)
        radius_room[i] = (REAL)w->radius;
    for (int64_t at = start; at < stop; at += BLOCK) {
        const int count = (int)most_of(stop - at, BLOCK);
        const REAL *force = NAME(force)(w, at, count, NULL, force_room);
        const REAL *r = w->radii ? (const REAL *)w->radii + at : radius_room;
        REAL *theta = whole ? (REAL *)w->weight + at : theta_room;
        REAL *q = (REAL *)w->position + at, *m = (REAL *)w->momentum + at, *v = (REAL *)w->second + at;
        if (w->form == CIRCLE) {
            NAME(adam_on_circles)(&adam, count, force, r, q, m, v);
            NAME(lower)(count, q, 1, theta);
            NAME(scale)(count, theta, r);
        } else if (w->form == SQUARE) {
            NAME(adam_on_roots)(&adam, count, force, q, m, v);
            NAME(square)(count, NAME(farthest_root)(w), q, theta);
        } else {
            if (!whole)
                NAME(read)(w->weight, w->weight_type, at, count, theta_room);
            NAME(adam_on_lines)(&adam, count, force, theta, m, v);
        }
        if (!whole)
            NAME(write)(w->weight, w->weight_type, at, count, theta);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Project a vector onto the tangent space of a row; returns how long it is then. */
static inline double NAME(make_tangent)(struct NAME(row) *row, REAL *vector)
{
    row->p = vector;
    NAME(measure)(row);
    return NAME(project)(row);
}

/* room is for a row. */
static inline void NAME(adam_of_row)(
    const struct weight *w, const struct NAME(adam) *adam, int64_t number, struct NAME(row) *row, REAL *v,
    REAL *room)
{
    REAL theta_room[BLOCK], force_room[BLOCK];
    REAL *q = row->q, *m = row->p;
    const REAL rate = adam->move == 0 ? 0 : adam->lr / adam->move * adam->decay;
    const int64_t n = row->n;
    if (w->slack)
        room[w->entries] = 0; /* which has no gradient */
    for (int64_t at = 0, count; at < w->entries; at += count) {
        const REAL *force = NAME(force_of_row)(w, number, at, &count, q, theta_room, force_room);
        memcpy(room + at, force, sizeof(REAL) * (size_t)count);
    }
    NAME(make_tangent)(row, room);
    NAME(average)(adam, n, room, m, v);
    NAME(make_tangent)(row, m);
    for (int64_t i = 0; i < n; i++)
        room[i] = NAME(quotient)(adam, m[i], v[i]);
    if (rate != 0 && w->form == SIMPLEX)
        for (int64_t i = 0; i < n; i++)
            room[i] = FMA(2 * rate * q[i], q[i] * q[i], room[i]);
    else if (rate != 0 && w->slack) /* without it decay is normal */
        for (int64_t i = 0; i < w->entries; i++)
            room[i] = FMA(rate, q[i], room[i]);
    const double s = NAME(make_tangent)(row, room), r = row->r;
    if (s > 0) {
        double angle = (double)adam->move * (s / r);
        angle = angle < FEW(3.4e38, 1.7e308) ? angle : FEW(3.4e38, 1.7e308);
        const double cosine = cos(angle), one = 1 / sqrt(row->sums[0]);
        NAME(turn)(
            row->unit, q, room, (REAL)(r * (cosine * one)), (REAL)(-r * (sin(angle) / s)), 0, 0, n, row->ahead);
    }
    /* Twice: after a long step much of it is normal, and of that one projection leaves what q is off by. */
    for (int turn = 0; turn < 2; turn++)
        NAME(make_tangent)(row, m);
}

/* Move the rows from first to last; room is for one. */
static void NAME(move_rows_by_adam)(const struct weight *w, int64_t first, int64_t last, REAL *room)
{
    const struct NAME(adam) adam = NAME(adam_of)(w);
    const int64_t n = w->entries + w->slack, most = AHEAD / sizeof(REAL), ahead = n < most ? n : most;
    for (int64_t number = first; number < last; number++) {
        const REAL r = w->radii ? ((const REAL *)w->radii)[number] : (REAL)w->radius;
        REAL *q = w->position ? (REAL *)w->position + number * w->stride : (REAL *)w->weight + number * n;
        REAL *m = (REAL *)w->momentum + number * w->stride, *v = (REAL *)w->second + number * w->stride;
        struct NAME(row) row = {.q = q, .p = m, .r = r, .unit = 1 / r, .faded = 1, .n = n, .ahead = ahead};
        NAME(adam_of_row)(w, &adam, number, &row, v, room);
        NAME(write_row)(w, number, q);
    }
}
