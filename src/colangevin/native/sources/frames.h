/* Weights with orthonormal rows or columns: RATTLE by products of Gram matrices.
 *
 * Q is r x s, and X a momentum that need not be cotangent. With S = Q^T X, Z = a (S + S^T) / 2, A = a (S - S^T) / 2 the
 * drift aims at Q + a X - Q Z, whose Gram matrix is I + E with E = a^2 (X^T X - S^T S) + A^T A. The multipliers M solve
 * E + Y + Y^T = 0 for Y = M (M / 2 - I - A). Here Y + Y^T = (M - A)^T (M - A) - A^T A - 2 M, so that all products of s x s
 * matrices are symmetric, at half the work. Then
 *
 *     P_bar = X - Q (Z + M) / a,   Q' = Q + a P_bar,   P' = P_bar - Q' M / a,
 *
 * since the symmetric part of Q'^T P_bar is M / a: the symmetric part of Q^T Q' is I - M. So a drift takes three and a half
 * products of r s^2 numbers. None of them holds the identity, so that E is exact beside the length of the step, and so is
 * the momentum however short that is. In turn, an error of Q itself stays; every LOOK_EVERY steps it is looked at and taken
 * away.
 *
 * A weight may be c Q, with the singular values c. Its momentum is P, so that Q moves by P / c: a drift takes 1 / c of its time,
 * and Euler's step is 1 / c as long.
 */

/* Bytes of room that each thread takes to multiply, in whole lines of the cache. */
static int64_t NAME(room_to_multiply)(const struct weight *w)
{
    const int64_t side = w->rows > w->entries ? w->rows : w->entries;
    return parts_of((int64_t)sizeof(REAL) * NAME(product_room)(side), 64) * 64;
}

/* Bytes of room for the step of a matrix. */
static int64_t NAME(frame_room)(const struct weight *w, int64_t threads)
{
    const int64_t s = most_of(w->rows, w->entries);
    const int64_t large = LARGE_ROOMS + (w->radius != 1);
    const int64_t numbers = large * w->elements + SQUARE_ROOMS * s * s + 2 * s;
    return threads * NAME(room_to_multiply)(w) + (int64_t)sizeof(REAL) * numbers;
}

struct NAME(frame) {
    struct NAME(shape) f;
    struct weight *w;
    const REAL *q; /* where it is */
    const REAL *x; /* the momentum, projected or not; NULL for none */
    REAL *x_room, *q_room, *spare; /* as large as the matrix */
    REAL *line;                    /* two of its shorter sides */
    REAL *S, *F, *Z, *A, *E, *M, *R, *Y;
    REAL *K;                       /* A^T A, in the room of S or E */
    REAL *q_out, *p_out; /* where the next drift leads */
};

/* ---- elements -------------------------------------------------------------------------------- */

/* x_room <- keep x + scale (gradient or noise), a stretch of it at a time. */
struct NAME(blend) {
    struct NAME(frame) *frame;
    REAL keep, scale;
    const uint64_t *key; /* of the noise; NULL for the gradient */
};

static void NAME(blend_unit)(void *data, int64_t unit, void *unused)
{
    const struct NAME(blend) *blend = data;
    struct NAME(frame) *frame = blend->frame;
    const struct weight *w = frame->w;
    REAL theta_room[BLOCK], room[BLOCK];
    const int64_t stop = (unit + 1) * UNIT < w->elements ? (unit + 1) * UNIT : w->elements;
    (void)unused;
    for (int64_t at = unit * UNIT; at < stop; at += BLOCK) {
        const int count = stop - at < BLOCK ? (int)(stop - at) : BLOCK;
        const REAL *added = room;
        if (blend->key)
            NAME(normals_of_part)(*blend->key, &w->window, at, count, room);
        else {
            const REAL *theta = w->decay != 0 ? NAME(read)(w->weight, w->weight_type, at, count, theta_room) : NULL;
            added = NAME(force)(w, at, count, theta, room);
        }
        const REAL *x = frame->x ? frame->x + at : NULL;
        REAL *out = frame->x_room + at;
        if (x)
            for (int i = 0; i < count; i++)
                out[i] = FMA(blend->scale, added[i], blend->keep * x[i]);
        else
            for (int i = 0; i < count; i++)
                out[i] = blend->scale * added[i];
    }
}

static void NAME(blend)(struct NAME(frame) *frame, REAL keep, REAL scale, const uint64_t *key)
{
    struct NAME(blend) blend = {frame, keep, scale, key};
    share(frame->f.hands, NAME(blend_unit), &blend, (frame->w->elements + UNIT - 1) / UNIT);
    frame->x = frame->x_room;
}

/* p_out <- p_out + x, q_out <- q + a p_out */
struct NAME(advance) {
    struct NAME(frame) *frame;
    REAL a;
};

static void NAME(advance_unit)(void *data, int64_t unit, void *unused)
{
    const struct NAME(advance) *advance = data;
    struct NAME(frame) *frame = advance->frame;
    const struct weight *w = frame->w;
    const int64_t start = unit * UNIT, stop = start + UNIT < w->elements ? start + UNIT : w->elements;
    (void)unused;
    for (int64_t i = start; i < stop; i++) {
        const REAL p = frame->p_out[i] + frame->x[i], q = FMA(advance->a, p, frame->q[i]);
        frame->p_out[i] = p;
        frame->q_out[i] = q;
    }
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Whether X^T X follows from S, as it does where Q Q^T = I too. */
static inline int NAME(is_square)(const struct NAME(frame) *frame)
{
    return frame->f.r == frame->f.s;
}

/* The products of Q and X that everything else follows from: S, F, and Z / a, A / a. (Z itself may
 * underflow where Z / a, which the momentum needs, does not.) */
static void NAME(measure_frame)(struct NAME(frame) *frame)
{
    NAME(inner)(&frame->f, frame->q, frame->x, frame->S);
    if (!NAME(is_square)(frame))
        NAME(gram)(&frame->f, frame->x, frame->F);
    NAME(split)(frame->S, frame->f.s, 1, frame->Z, frame->A);
}

/* |X|^2 */
static double NAME(size_of_x)(const struct NAME(frame) *frame)
{
    double sum = 0;
    if (NAME(is_square)(frame))
        return NAME(squares_of)(frame->S, (int64_t)frame->f.s * frame->f.s);
    for (int i = 0; i < frame->f.s; i++)
        sum += (double)frame->F[(int64_t)i * (frame->f.s + 1)];
    return sum;
}

/* X <- X - Q (S + S^T) / 2: into the room, so that the momentum in memory stays while the step may fail. */
static void NAME(remove_normal)(struct NAME(frame) *frame)
{
    const int64_t n = frame->w->elements;
    if (frame->x != frame->x_room)
        memcpy(frame->x_room, frame->x, (size_t)n * sizeof(REAL));
    frame->x = frame->x_room;
    NAME(along)(&frame->f, frame->q, frame->Z, -1, 1, frame->x_room);
}

/* Measure X, and project it while its normal part is larger than most, or so large beside the rest that its rounding would
 * show there. */
static void NAME(settle)(struct NAME(frame) *frame, REAL most)
{
    const int64_t s = frame->f.s;
    NAME(measure_frame)(frame);
    for (int turn = 0; turn < ITERATIONS; turn++) {
        const double size = NAME(size_of_x)(frame);
        const double normal = NAME(squares_of)(frame->Z, s * s);
        const int swamped = normal > 0.75 * size;
        if (!(size < INFINITY)) /* the iteration will fail */
            return;
        if (!(swamped && size > 0) && NAME(spectral_norm)(frame->Z, frame->f.s, most, frame->line) <= most)
            return;
        NAME(remove_normal)(frame);
        NAME(measure_frame)(frame);
    }
}

/* The multipliers M for E and A; returns whether the iteration converged. K is A^T A. */
static int NAME(multipliers)(struct NAME(frame) *frame, REAL tolerance, REAL size)
{
    const int s = frame->f.s;
    const int64_t n = (int64_t)s * s;
    REAL *M = frame->M, *R = frame->R, *B = frame->F;
    memcpy(R, frame->E, (size_t)n * sizeof(REAL));
    memset(M, 0, (size_t)n * sizeof(REAL));
    for (int round = 1; !(size <= tolerance); round++) {
        if (round > ITERATIONS) /* as in multipliers.py, which asks for no more */
            return size <= TOLERANCE;
        frame->w->rounds++;
        for (int64_t i = 0; i < n; i++) {
            M[i] += R[i] / 2;
            B[i] = M[i] - frame->A[i];
        }
        NAME(square_gram)(&frame->f, B, frame->Y);
        for (int64_t i = 0; i < n; i++)
            R[i] = frame->E[i] + ((frame->Y[i] - frame->K[i]) - 2 * M[i]);
        const REAL before = size;
        size = NAME(largest)(R, n);
        const int near = size <= NEARLY;
        if (round < TRIALS ? !(near || size <= PROGRESS * before) : !near)
            return 0;
        if (near && size > tolerance && size * (size / before) * 4 <= tolerance) {
            /* the next iteration is the last: its product would only show that */
            frame->w->rounds++;
            for (int64_t i = 0; i < n; i++)
                M[i] += R[i] / 2;
            return 1;
        }
    }
    return 1;
}

/* The same for a square matrix, whose M and A commute. So (I - M)^2 = I - E, and M is the sum of c_k E^k with c_1 = 1/2 and
 * c_(k+1) = (2k - 1) / (2k + 2) c_k:
 *
 *     M = c_1 E + E^2 (c_2 I + c_3 E + E^2 (c_4 I + c_5 E + ...)),
 *
 * half a product for each E^2, as all of these are symmetric. A pair of terms counts as a round of the iteration. Returns 0
 * where too many would be needed. */
static int NAME(series)(struct NAME(frame) *frame, REAL tolerance)
{
    const int s = frame->f.s;
    const int64_t n = (int64_t)s * s;
    const REAL *E = frame->E;
    REAL *sum = frame->M, *E2 = frame->R, *product = frame->Y;
    REAL c[2 * SERIES + 3] = {0, (REAL)0.5};
    for (int k = 1; k < 2 * SERIES + 2; k++)
        c[k + 1] = c[k] * (REAL)(2 * k - 1) / (REAL)(2 * k + 2);
    const double norm = (double)NAME(spectral_norm)(E, s, SHORT_SERIES, frame->line);
    int pairs = 0; /* of terms after the first */
    for (double left = norm * norm; !((double)c[2 * pairs + 2] * left <= (double)tolerance); left *= norm * norm)
        if (++pairs > SERIES)
            return 0;
    if (pairs > 0)
        NAME(commuting_product)(&frame->f, E, E, E2);
    if (pairs == 1 && (double)c[3] * norm * norm * norm <= (double)tolerance) {
        frame->w->rounds++;
        for (int64_t i = 0; i < n; i++)
            sum[i] = c[1] * E[i] + c[2] * E2[i];
        return 1;
    }
    for (int k = pairs; k >= 0; k--) {
        frame->w->rounds++;
        if (k < pairs)
            NAME(commuting_product)(&frame->f, E2, sum, product);
        for (int64_t i = 0; i < n; i++)
            sum[i] = c[2 * k + 1] * E[i] + (k < pairs ? product[i] : 0);
        for (int i = 0; k && i < s; i++)
            sum[(int64_t)i * (s + 1)] += c[2 * k];
    }
    return 1;
}

/* Look at Q: R <- Q^T Q - I. Returns the largest entry. */
static REAL NAME(look_at)(struct NAME(frame) *frame, const REAL *q)
{
    const int s = frame->f.s;
    NAME(gram)(&frame->f, q, frame->R);
    for (int i = 0; i < s; i++)
        frame->R[(int64_t)i * (s + 1)] -= 1;
    return NAME(largest)(frame->R, (int64_t)s * s);
}

/* Look at Q, and take away what it lacks to be orthonormal: a Newton step squares the error. */
static void NAME(correct)(struct NAME(frame) *frame, REAL *q)
{
    const int64_t n = (int64_t)frame->f.s * frame->f.s;
    for (int turn = 0; turn < TRIALS; turn++) {
        const REAL error = NAME(look_at)(frame, q);
        if (error <= RESULT)
            return;
        memcpy(frame->spare, q, (size_t)frame->w->elements * sizeof(REAL));
        for (int64_t i = 0; i < n; i++)
            frame->R[i] /= 2;
        NAME(along)(&frame->f, frame->spare, frame->R, -1, 1, q);
        if (error * error <= TOLERANCE / 8) /* what is left is rounding */
            return;
    }
}

/* p_out <- X, projected, for a momentum X. */
static void NAME(project_frame)(struct NAME(frame) *frame)
{
    NAME(settle)(frame, (REAL)INFINITY);
    if (frame->p_out != frame->x)
        memcpy(frame->p_out, frame->x, (size_t)frame->w->elements * sizeof(REAL));
    NAME(along)(&frame->f, frame->q, frame->Z, -1, 1, frame->p_out);
    frame->x = frame->p_out;
}

/* M <- (I + E)^(-1/2) by Newton and Schulz, for an E without negative eigenvalues; 0 if it is too large. */
static int NAME(inverse_root)(struct NAME(frame) *frame)
{
    const int s = frame->f.s;
    const int64_t n = (int64_t)s * s;
    REAL *Y = frame->Y, *M = frame->M, *T = frame->R, *next = frame->F;
    const REAL norm = NAME(spectral_norm)(frame->E, s, 0, frame->line);
    if (!(norm <= MODERATE))
        return 0;
    memset(M, 0, (size_t)n * sizeof(REAL));
    for (int64_t i = 0; i < n; i++)
        Y[i] = frame->E[i] / (1 + norm);
    for (int i = 0; i < s; i++) {
        Y[(int64_t)i * (s + 1)] += 1 / (1 + norm);
        M[(int64_t)i * (s + 1)] = 1;
    }
    /* Y -> (I + E)^(1/2) and M -> (I + E)^(-1/2), both over the root of 1 + norm */
    for (int turn = 0; turn < TRIALS; turn++) {
        REAL left = 0;
        NAME(square_product)(&frame->f, M, Y, T);
        for (int i = 0; i < s; i++)
            for (int j = 0; j < s; j++) {
                const REAL error = (i == j) - T[(int64_t)i * s + j];
                left = ABS(error) > left || error != error ? ABS(error) : left;
                T[(int64_t)i * s + j] = (i == j) + error / 2;
            }
        if (left <= NEARLY)
            break;
        NAME(square_product)(&frame->f, Y, T, next);
        memcpy(Y, next, (size_t)n * sizeof(REAL));
        NAME(square_product)(&frame->f, T, M, next);
        NAME(split)(next, s, 1, M, T);
    }
    for (int64_t i = 0; i < n; i++)
        M[i] /= SQRT(1 + norm);
    return 1;
}

/* Where the iteration fails: Q' is the polar factor of Q + a X - Q Z, and P' the projection of (Q' - Q) / a. */
static int NAME(polar)(struct NAME(frame) *frame, REAL a)
{
    const int64_t n = frame->w->elements;
    const REAL *q = frame->q;
    REAL *aim = frame->spare;
    if (!NAME(inverse_root)(frame))
        return 0;
    frame->w->polar++;
    for (int64_t i = 0; i < n; i++)
        aim[i] = FMA(a, frame->x[i], q[i]);
    NAME(along)(&frame->f, q, frame->Z, -a, 1, aim);
    NAME(along)(&frame->f, aim, frame->M, 1, 0, frame->p_out);
    NAME(correct)(frame, frame->p_out);
    for (int64_t i = 0; i < n; i++) {
        const REAL landed = frame->p_out[i], left = q[i];
        frame->p_out[i] = (landed - left) / a;
        frame->q_out[i] = landed;
    }
    frame->q = frame->q_out;
    frame->x = frame->p_out;
    NAME(project_frame)(frame);
    return 1;
}

/* E, A and K for a drift of time a; returns the largest entry of E. */
static REAL NAME(aim)(struct NAME(frame) *frame, REAL a)
{
    const int s = frame->f.s;
    const int64_t n = (int64_t)s * s;
    NAME(settle)(frame, NORMAL / a);
    if (NAME(is_square)(frame)) { /* S^T S = X^T X */
        NAME(gram)(&frame->f, frame->A, frame->E);
        for (int64_t i = 0; i < n; i++)
            frame->E[i] *= a * a;
        frame->K = frame->E;
    } else {
        NAME(square_gram)(&frame->f, frame->S, frame->Y);
        NAME(square_gram)(&frame->f, frame->A, frame->R);
        frame->K = frame->S;
        for (int64_t i = 0; i < n; i++) {
            frame->K[i] = a * a * frame->R[i];
            frame->E[i] = a * a * (frame->F[i] + (frame->R[i] - frame->Y[i]));
        }
    }
    for (int64_t i = 0; i < n; i++)
        frame->A[i] *= a;
    return NAME(largest)(frame->E, n);
}

/* The same for Euler's step, which is not projected first: E = S + S^T + X^T X, and A is S. */
static REAL NAME(aim_of_euler)(struct NAME(frame) *frame)
{
    const int s = frame->f.s;
    NAME(measure_frame)(frame);
    if (NAME(is_square)(frame))
        NAME(gram)(&frame->f, frame->x, frame->F);
    const REAL size = NAME(close)(frame->F, frame->S, s, frame->E);
    memcpy(frame->A, frame->S, (size_t)s * (size_t)s * sizeof(REAL));
    memset(frame->Z, 0, (size_t)s * (size_t)s * sizeof(REAL));
    frame->K = frame->S;
    NAME(square_gram)(&frame->f, frame->A, frame->K);
    return size;
}

/* The error that the multipliers of a drift may have: that of a momentum is measured by the length of the step, of which
 * this takes the root mean square over the vectors. Of large steps the rounding of the iteration is what is left. */
static REAL NAME(tolerance)(const struct NAME(frame) *frame, REAL a)
{
    const REAL length = a * (REAL)sqrt(NAME(size_of_x)(frame) / frame->f.s);
    return length < 1 ? length * (length + (REAL)0.125) * TOLERANCE : TOLERANCE;
}

/* From x to where the geodesic leads in time a, or Euler's step, where a is 1 and there is no momentum. Returns 0 where
 * no way leads to the manifold: then nothing has been written but room. */
static int NAME(drift_frame)(struct NAME(frame) *frame, REAL a, int euler, int last)
{
    const struct weight *w = frame->w;
    const int64_t n = (int64_t)frame->f.s * frame->f.s;
    const REAL size = euler ? NAME(aim_of_euler)(frame) : NAME(aim)(frame, a);
    /* Errors of Euler's steps add up in Q until it is looked at, so each may leave a part of the whole alone. */
    const REAL tolerance = euler ? TOLERANCE / 4 : NAME(tolerance)(frame, a);
    if (!(!euler && NAME(is_square)(frame) && NAME(series)(frame, tolerance)) && !NAME(multipliers)(frame, tolerance, size))
        return !euler && NAME(polar)(frame, a);
    REAL *N = frame->Z; /* (Z + M) / a */
    for (int64_t i = 0; i < n; i++)
        N[i] += frame->M[i] / a;
    const int due = last && *w->step % LOOK_EVERY == 0;
    const int doubtful = due || !(NAME(spectral_norm)(N, frame->f.s, SAFE / a, frame->line) <= SAFE / a);
    if (frame->p_out == frame->x) { /* of a drift that another one follows */
        memcpy(frame->spare, frame->x, (size_t)w->elements * sizeof(REAL));
        frame->x = frame->spare;
    }
    NAME(along)(&frame->f, frame->q, N, -1, 0, frame->p_out);
    struct NAME(advance) advance = {frame, a};
    share(frame->f.hands, NAME(advance_unit), &advance, (w->elements + UNIT - 1) / UNIT);
    frame->q = frame->q_out;
    frame->x = frame->p_out;
    if (doubtful)
        NAME(correct)(frame, frame->q_out);
    if (!euler)
        NAME(along)(&frame->f, frame->q, frame->M, -1 / a, 1, frame->p_out);
    return 1;
}

/* ---- a step ----------------------------------------------------------------------------------- */

/* Multiply the momentum by what an O without noise has left to be done. */
static void NAME(fade)(struct NAME(frame) *frame, REAL faded)
{
    for (int64_t i = 0; faded != 1 && i < frame->w->elements; i++)
        frame->x_room[i] = faded * frame->x[i];
    if (faded != 1)
        frame->x = frame->x_room;
}

/* How long Q drifts for a letter A. */
static REAL NAME(drift_time)(const struct weight *w, int k)
{
    return (REAL)(w->program->number[k] / w->radius);
}

/* The letters of a segment. A drift that another one follows leads into room; the last leads into memory. */
static int NAME(follow_frame)(struct NAME(frame) *frame, REAL *q, REAL *p, const uint64_t *keys)
{
    const struct program *program = frame->w->program;
    int drifts = 0, normal = 0; /* how many A are to come, and whether the momentum has a normal part */
    REAL faded = 1;
    for (int k = 0; k < program->letters; k++)
        drifts += program->letter[k] == 'A' && NAME(drift_time)(frame->w, k) >= LEAST;
    for (int k = 0; k < program->letters; k++) {
        const REAL number = (REAL)program->number[k];
        if (program->letter[k] == 'B') {
            NAME(blend)(frame, faded, -number, NULL);
            faded = normal = 1;
        } else if (program->letter[k] == 'O') {
            faded *= number;
            if (program->noisy) {
                NAME(blend)(frame, faded, (REAL)program->scale[k], keys + k);
                faded = normal = 1;
            }
        } else if (NAME(drift_time)(frame->w, k) >= LEAST) {
            NAME(fade)(frame, faded);
            frame->q_out = drifts == 1 ? q : frame->q_room;
            frame->p_out = drifts == 1 ? p : frame->x_room;
            if (!NAME(drift_frame)(frame, NAME(drift_time)(frame->w, k), 0, drifts == 1))
                return 0;
            drifts--;
            faded = 1;
            normal = 0;
        }
    }
    NAME(fade)(frame, faded);
    frame->p_out = p;
    if (normal)
        NAME(project_frame)(frame);
    else if (frame->x != p)
        memcpy(p, frame->x, (size_t)frame->w->elements * sizeof(REAL));
    return 1;
}

/* Euler and Maruyama's step. A momentum that steps with one have left is kept, but cotangent where Q is now. */
static int NAME(euler_of_frame)(struct NAME(frame) *frame, REAL *q, REAL *p, const uint64_t *keys)
{
    const struct program *program = frame->w->program;
    frame->x = NULL;
    NAME(blend)(frame, 0, -(REAL)(program->number[0] / frame->w->radius), NULL);
    if (program->noisy)
        NAME(blend)(frame, 1, (REAL)(program->scale[0] / frame->w->radius), keys);
    frame->q_out = q;
    frame->p_out = frame->x_room;
    if (!NAME(drift_frame)(frame, 1, 1, 1))
        return 0;
    if (p) {
        frame->x = frame->p_out = p;
        NAME(project_frame)(frame);
    }
    return 1;
}

/* Move a matrix with that many threads. Returns 0 where plain torch has to do it: then nothing has changed. */
static int NAME(move_frame)(struct weight *w, int64_t threads, void *room)
{
    const int tall = w->rows >= w->entries;
    const int64_t s = tall ? w->entries : w->rows, r = tall ? w->rows : w->entries;
    const struct hands hands = {threads, room, NAME(room_to_multiply)(w)};
    const REAL radius = (REAL)w->radius;
    REAL *q = w->position ? w->position : w->weight, *p = w->momentum;
    REAL *at = (REAL *)(hands.room + threads * hands.room_bytes);
    uint64_t keys[MOST_LETTERS];
    const int apart = !w->position && w->radius != 1; /* W is in memory, and Q is made of it */
    if (apart) {
        const REAL *weight = w->weight;
        q = at;
        at += w->elements;
        for (int64_t i = 0; i < w->elements; i++)
            q[i] = weight[i] / radius;
    }
    struct NAME(frame) frame = {.f = {&hands, (int)r, (int)s, tall}, .w = w, .q = q, .x = p};
    REAL **large[] = {&frame.x_room, &frame.q_room, &frame.spare};
    REAL **square[] = {&frame.S, &frame.F, &frame.Z, &frame.A, &frame.E, &frame.M, &frame.R, &frame.Y};
    for (int k = 0; k < LARGE_ROOMS; k++, at += w->elements)
        *large[k] = at;
    for (int k = 0; k < SQUARE_ROOMS; k++, at += s * s)
        *square[k] = at;
    frame.line = at;
    draw_keys(w, keys);
    const int moved = w->program->letters ? NAME(follow_frame)(&frame, q, p, keys) : NAME(euler_of_frame)(&frame, q, p, keys);
    if (moved && (w->position || apart))
        for (int64_t start = 0; start < w->elements; start += BLOCK) {
            const int count = w->elements - start < BLOCK ? (int)(w->elements - start) : BLOCK;
            REAL scaled[BLOCK];
            for (int i = 0; i < count; i++)
                scaled[i] = radius * q[start + i];
            NAME(write)(w->weight, w->weight_type, start, count, scaled);
        }
    return moved;
}
