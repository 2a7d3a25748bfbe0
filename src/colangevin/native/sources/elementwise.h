/* Weights whose elements move alone: on lines, on circles with their angle as position, or as squares of a position that
 * moves on the line. */


/* The gradient of what is minimised, weight decay included. */
static inline const REAL *NAME(force)(
    const struct weight *w, int64_t start, int count, const REAL *theta, REAL *buffer)
{
    const REAL *gradient = NAME(read)(w->gradient, w->gradient_type, start, count, buffer);
    const REAL sign = w->maximize ? -1 : 1, decay = (REAL)w->decay;
    if (decay != 0)
        for (int i = 0; i < count; i++)
            buffer[i] = FMA(decay, theta[i], sign * gradient[i]);
    else if (sign < 0)
        for (int i = 0; i < count; i++)
            buffer[i] = -gradient[i];
    else
        return gradient;
    return buffer;
}

/* Whether every angle of a block is at most so large. */
static inline int NAME(all_within)(const REAL *RESTRICT angle, int count, REAL bound)
{
    int beyond = 0;
    for (int i = 0; i < count; i++)
        beyond |= ABS(angle[i]) > bound;
    return !beyond;
}

/* B on circles: the gradient with respect to the angle is cos(q) r G, in units of r^2. */
static inline void NAME(kick_angles)(
    int count, REAL faded, REAL b, const REAL *RESTRICT q, REAL *RESTRICT p, const REAL *RESTRICT force)
{
    if (NAME(all_within)(q, count, RIGHT_ANGLE)) /* most blocks, and at half the price */
        for (int i = 0; i < count; i++)
            p[i] = FMA(-b, NAME(cosine_near_zero)(q[i]) * force[i], faded * p[i]);
    else
        for (int i = 0; i < count; i++)
            p[i] = FMA(-b, NAME(cosine)(q[i]) * force[i], faded * p[i]);
}

/* B on roots: the gradient with respect to the root is 2 q G. */
static inline void NAME(kick_roots)(
    int count, REAL faded, REAL b, const REAL *RESTRICT q, REAL *RESTRICT p, const REAL *RESTRICT force)
{
    for (int i = 0; i < count; i++)
        p[i] = FMA(-b, 2 * q[i] * force[i], faded * p[i]);
}

/* Multiply a block by factors, if there are any. */
static inline void NAME(scale)(int count, REAL *RESTRICT x, const REAL *RESTRICT factor)
{
    if (factor)
        for (int i = 0; i < count; i++)
            x[i] *= factor[i];
}

/* The letters of a segment on a block: q and p are changed in place. Lengths are in units of the radius: unit is 1 / r,
 * or 1 where every element has its own in units, which the force has been multiplied by. */
static inline void NAME(follow)(
    const struct weight *w, int64_t start, int count, REAL *RESTRICT q, REAL *RESTRICT p,
    const REAL *RESTRICT force, REAL unit, const REAL *RESTRICT units, const uint64_t *keys)
{
    REAL noise[BLOCK], faded = 1; /* by an O without noise: the next letter that reads p multiplies by it */
    const struct program *program = w->program;
    for (int k = 0; k < program->letters; k++) {
        const REAL number = (REAL)program->number[k], scale = (REAL)program->scale[k] * unit;
        switch (program->letter[k]) {
        case 'A':
            for (int i = 0; i < count; i++)
                q[i] = FMA(number, faded * p[i], q[i]);
            break;
        case 'B':
            if (w->form == CIRCLE)
                NAME(kick_angles)(count, faded, number * unit, q, p, force);
            else if (w->form == SQUARE)
                NAME(kick_roots)(count, faded, number, q, p, force);
            else
                for (int i = 0; i < count; i++)
                    p[i] = FMA(-number, force[i], faded * p[i]);
            faded = 1;
            break;
        default:
            faded *= number;
            if (program->noisy) {
                NAME(normals_of_part)(keys[k], &w->window, start, count, noise);
                NAME(scale)(count, noise, units);
                for (int i = 0; i < count; i++)
                    p[i] = FMA(scale, noise[i], faded * p[i]);
                faded = 1;
            }
        }
    }
    if (faded != 1)
        for (int i = 0; i < count; i++)
            p[i] *= faded;
}

/* Euler and Maruyama's step of a block of a line. */
static inline void NAME(euler_on_lines)(
    const struct weight *w, int64_t start, int count, REAL *RESTRICT q, const REAL *RESTRICT force, const uint64_t *keys)
{
    REAL noise[BLOCK];
    const REAL h = (REAL)w->program->number[0], sigma = (REAL)w->program->scale[0];
    for (int i = 0; i < count; i++)
        q[i] = FMA(-h, force[i], q[i]);
    if (w->program->noisy) {
        NAME(normals_of_part)(keys[0], &w->window, start, count, noise);
        for (int i = 0; i < count; i++)
            q[i] = FMA(sigma, noise[i], q[i]);
    }
}

/* The same on circles, with projection; unit and units as for the letters. */
static inline void NAME(euler_on_circles)(
    const struct weight *w, int64_t start, int count, REAL *RESTRICT q, const REAL *RESTRICT force, REAL unit,
    const REAL *RESTRICT units, const uint64_t *keys)
{
    REAL noise[2 * BLOCK] = {0};
    const REAL h = (REAL)w->program->number[0] * unit, sigma = (REAL)w->program->scale[0] * unit;
    const struct window window = window_on_noise(w, 2, 1);
    if (w->program->noisy)
        NAME(normals_of_part)(keys[0], &window, 2 * start, 2 * (int64_t)count, noise);
    for (int i = 0; i < count; i++) {
        const REAL own = units ? units[i] : 1;
        REAL x, y;
        NAME(sine_and_cosine)(q[i], &x, &y);
        x += FMA(-h, force[i], sigma * own * noise[2 * i]);
        y += sigma * own * noise[2 * i + 1];
        q[i] = NAME(angle_of)(x, y);
    }
}

/* Bring angles back to [-pi, pi] and write the weights that they stand for. */
static inline void NAME(lower)(int count, REAL *RESTRICT q, REAL r, REAL *RESTRICT theta)
{
    if (NAME(all_within)(q, count, RIGHT_ANGLE))
        for (int i = 0; i < count; i++)
            theta[i] = r * NAME(sine_near_zero)(q[i]);
    else
        for (int i = 0; i < count; i++) {
            q[i] = NAME(wrapped)(q[i]);
            theta[i] = r * NAME(sine)(q[i]);
        }
}

/* O without noise, B and A: what SGD with momentum does. In one pass, since most steps are this. */
static inline void NAME(oba_on_lines)(
    const struct program *program, int64_t count, REAL *RESTRICT q, REAL *RESTRICT p, const REAL *RESTRICT force)
{
    const REAL c = (REAL)program->number[0], b = (REAL)program->number[1], a = (REAL)program->number[2];
    for (int64_t i = 0; i < count; i++) {
        p[i] = FMA(-b, force[i], c * p[i]);
        q[i] = FMA(a, p[i], q[i]);
    }
}

/* The same on circles, for angles up to a right one. Returns whether they are still, and then writes the weights too. */
static inline int NAME(oba_on_circles)(
    const struct program *program, int count, REAL *RESTRICT q, REAL *RESTRICT p, const REAL *RESTRICT force, REAL unit,
    REAL r, REAL *RESTRICT theta)
{
    const REAL c = (REAL)program->number[0], b = (REAL)program->number[1] * unit, a = (REAL)program->number[2];
    int beyond = 0;
    for (int i = 0; i < count; i++) {
        p[i] = FMA(-b, NAME(cosine_near_zero)(q[i]) * force[i], c * p[i]);
        q[i] = FMA(a, p[i], q[i]);
        theta[i] = r * NAME(sine_near_zero)(q[i]);
        beyond |= ABS(q[i]) > RIGHT_ANGLE;
    }
    return !beyond;
}

/* Where roots stop, as in nonnegative.py. */
static inline REAL NAME(farthest_root)(const struct weight *w)
{
    return w->weight_type == FLOAT16 ? 128 : (REAL)FEW(0x1p32, 0x1p256);
}

/* The weights of roots, which are stopped. */
static inline void NAME(square)(int count, REAL farthest, REAL *RESTRICT q, REAL *RESTRICT theta)
{
    for (int i = 0; i < count; i++) {
        q[i] = q[i] > farthest ? farthest : q[i] < -farthest ? -farthest : q[i];
        theta[i] = q[i] * q[i];
    }
}

/* The same on roots; writes the weights too. */
static inline void NAME(oba_on_roots)(
    const struct program *program, int count, REAL farthest, REAL *RESTRICT q, REAL *RESTRICT p,
    const REAL *RESTRICT force, REAL *RESTRICT theta)
{
    const REAL c = (REAL)program->number[0], b = (REAL)program->number[1], a = (REAL)program->number[2];
    for (int i = 0; i < count; i++) {
        p[i] = FMA(-b, 2 * q[i] * force[i], c * p[i]);
        const REAL root = FMA(a, p[i], q[i]);
        q[i] = root > farthest ? farthest : root < -farthest ? -farthest : root;
        theta[i] = q[i] * q[i];
    }
}

/* Whether a program is O without noise, B and A. */
static inline int NAME(is_oba)(const struct program *program)
{
    return !program->noisy && program->letters == 3 && memcmp(program->letter, "OBA", 3) == 0;
}

/* Ask memory for the block after this one, if there is noise: while that is made, memory would have nothing to do. */
static inline __attribute__((always_inline)) void NAME(ask_for_block)(const struct weight *w, int64_t at, int64_t stop)
{
    const int state = FEW(FLOAT32, FLOAT64);
    const int64_t count = most_of(stop - at, BLOCK);
    if (!w->program->noisy)
        return;
    ask_for(w->gradient, w->gradient_type, at, count);
    ask_for(w->position ? w->position : w->weight, w->position ? state : w->weight_type, at, count);
    if (w->momentum)
        ask_for(w->momentum, state, at, count);
}

/* Move the elements of circles from start to stop. */
static void NAME(move_angles)(const struct weight *w, int64_t start, int64_t stop)
{
    REAL theta_room[BLOCK], force_room[BLOCK], units_room[BLOCK];
    uint64_t keys[MOST_LETTERS];
    const int whole = w->weight_type == FEW(FLOAT32, FLOAT64);
    const int oba = NAME(is_oba)(w->program);
    const REAL r = w->radii ? 1 : (REAL)w->radius, unit = 1 / r;
    draw_keys(w, keys);
    for (int64_t at = start; at < stop; at += BLOCK) {
        const int count = stop - at < BLOCK ? (int)(stop - at) : BLOCK;
        NAME(ask_for_block)(w, at + count, stop);
        REAL *q = (REAL *)w->position + at, *theta = whole ? (REAL *)w->weight + at : theta_room;
        const REAL *units = NULL;
        if (!whole && w->decay != 0)
            NAME(read)(w->weight, w->weight_type, at, count, theta_room);
        const REAL *force = NAME(force)(w, at, count, theta, force_room);
        if (w->radii) {
            for (int i = 0; i < count; i++) {
                units_room[i] = 1 / ((const REAL *)w->radii)[at + i];
                force_room[i] = force[i] * units_room[i];
            }
            units = units_room;
            force = force_room;
        }
        REAL *p = (REAL *)w->momentum + at;
        int written = 0;
        if (oba && NAME(all_within)(q, count, RIGHT_ANGLE))
            written = NAME(oba_on_circles)(w->program, count, q, p, force, unit, r, theta);
        else if (w->program->letters)
            NAME(follow)(w, at, count, q, p, force, unit, units, keys);
        else
            NAME(euler_on_circles)(w, at, count, q, force, unit, units, keys);
        if (!written)
            NAME(lower)(count, q, r, theta);
        if (w->radii)
            NAME(scale)(count, theta, (const REAL *)w->radii + at);
        if (!whole)
            NAME(write)(w->weight, w->weight_type, at, count, theta);
    }
}

/* Move the elements of squares from start to stop. */
static void NAME(move_roots)(const struct weight *w, int64_t start, int64_t stop)
{
    REAL theta_room[BLOCK], force_room[BLOCK];
    uint64_t keys[MOST_LETTERS];
    const int whole = w->weight_type == FEW(FLOAT32, FLOAT64), oba = NAME(is_oba)(w->program);
    const REAL farthest = NAME(farthest_root)(w);
    draw_keys(w, keys);
    for (int64_t at = start; at < stop; at += BLOCK) {
        const int count = stop - at < BLOCK ? (int)(stop - at) : BLOCK;
        NAME(ask_for_block)(w, at + count, stop);
        REAL *q = (REAL *)w->position + at, *p = (REAL *)w->momentum + at;
        REAL *theta = whole ? (REAL *)w->weight + at : theta_room;
        if (!whole && w->decay != 0)
            NAME(read)(w->weight, w->weight_type, at, count, theta_room);
        const REAL *force = NAME(force)(w, at, count, theta, force_room);
        if (oba) {
            NAME(oba_on_roots)(w->program, count, farthest, q, p, force, theta);
        } else {
            if (w->program->letters) {
                NAME(follow)(w, at, count, q, p, force, 1, NULL, keys);
            } else {
                for (int i = 0; i < count; i++)
                    force_room[i] = 2 * q[i] * force[i];
                NAME(euler_on_lines)(w, at, count, q, force_room, keys);
            }
            NAME(square)(count, farthest, q, theta);
        }
        if (!whole)
            NAME(write)(w->weight, w->weight_type, at, count, theta);
    }
}

/* Move the elements of lines from start to stop. */
static void NAME(move_lines)(const struct weight *w, int64_t start, int64_t stop)
{
    REAL theta_room[BLOCK], force_room[BLOCK];
    uint64_t keys[MOST_LETTERS];
    const int whole = w->weight_type == FEW(FLOAT32, FLOAT64), oba = NAME(is_oba)(w->program);
    draw_keys(w, keys);
    for (int64_t at = start; at < stop; at += BLOCK) {
        const int count = stop - at < BLOCK ? (int)(stop - at) : BLOCK;
        NAME(ask_for_block)(w, at + count, stop);
        REAL *q = whole ? (REAL *)w->weight + at : theta_room;
        if (!whole)
            NAME(read)(w->weight, w->weight_type, at, count, theta_room);
        const REAL *force = NAME(force)(w, at, count, q, force_room);
        if (oba)
            NAME(oba_on_lines)(w->program, count, q, (REAL *)w->momentum + at, force);
        else if (w->program->letters)
            NAME(follow)(w, at, count, q, (REAL *)w->momentum + at, force, 1, NULL, keys);
        else
            NAME(euler_on_lines)(w, at, count, q, force, keys);
        if (!whole)
            NAME(write)(w->weight, w->weight_type, at, count, q);
    }
}
