/* Weights whose elements move alone: on lines, or on circles with their angle as position. */


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
    int count, REAL faded, REAL b, const REAL *RESTRICT q, REAL *RESTRICT p, const REAL *RESTRICT force,
    const REAL *RESTRICT unit)
{
    if (NAME(all_within)(q, count, RIGHT_ANGLE)) /* most blocks, and at half the price */
        for (int i = 0; i < count; i++)
            p[i] = FMA(-b, NAME(cosine_near_zero)(q[i]) * force[i] * unit[i], faded * p[i]);
    else
        for (int i = 0; i < count; i++)
            p[i] = FMA(-b, NAME(cosine)(q[i]) * force[i] * unit[i], faded * p[i]);
}

/* The letters of a segment on a block: q and p are changed in place. */
static inline void NAME(follow)(
    const struct weight *w, int64_t start, int count, REAL *RESTRICT q, REAL *RESTRICT p,
    const REAL *RESTRICT force, const REAL *RESTRICT unit, const uint64_t *keys)
{
    REAL noise[BLOCK], faded = 1; /* by an O without noise: the next letter that reads p multiplies by it */
    const struct program *program = w->program;
    for (int k = 0; k < program->letters; k++) {
        const REAL number = (REAL)program->number[k], scale = (REAL)program->scale[k];
        switch (program->letter[k]) {
        case 'A':
            for (int i = 0; i < count; i++)
                q[i] = FMA(number, faded * p[i], q[i]);
            break;
        case 'B':
            if (w->form == CIRCLE)
                NAME(kick_angles)(count, faded, number, q, p, force, unit);
            else
                for (int i = 0; i < count; i++)
                    p[i] = FMA(-number, force[i], faded * p[i]);
            faded = 1;
            break;
        default:
            faded *= number;
            if (program->noisy) {
                NAME(normals)(keys[k], start, count, noise);
                for (int i = 0; i < count; i++)
                    p[i] = FMA(scale, noise[i] * unit[i], faded * p[i]);
                faded = 1;
            }
        }
    }
    if (faded != 1)
        for (int i = 0; i < count; i++)
            p[i] *= faded;
}

/* Euler and Maruyama's step of a block, with projection on circles. */
static inline void NAME(euler)(
    const struct weight *w, int64_t start, int count, REAL *RESTRICT q, const REAL *RESTRICT force,
    const REAL *RESTRICT unit, const uint64_t *keys)
{
    REAL noise[2 * BLOCK];
    const struct program *program = w->program;
    const REAL h = (REAL)program->number[0], sigma = (REAL)program->scale[0];
    if (w->form == LINE) {
        for (int i = 0; i < count; i++)
            q[i] = FMA(-h, force[i], q[i]);
        if (program->noisy) {
            NAME(normals)(keys[0], start, count, noise);
            for (int i = 0; i < count; i++)
                q[i] = FMA(sigma, noise[i], q[i]);
        }
        return;
    }
    if (program->noisy)
        NAME(normals)(keys[0], 2 * start, 2 * (int64_t)count, noise);
    else
        memset(noise, 0, sizeof noise);
    for (int i = 0; i < count; i++) {
        /* in units of the radius */
        REAL x, y;
        NAME(sine_and_cosine)(q[i], &x, &y);
        x = FMA(FMA(-h, force[i], sigma * noise[2 * i]), unit[i], x);
        y = FMA(sigma * noise[2 * i + 1], unit[i], y);
        q[i] = NAME(angle_of)(x, y);
    }
}

/* Bring angles back to [-pi, pi] and write the weights that they stand for. */
static inline void NAME(lower)(
    int count, REAL *RESTRICT q, const REAL *RESTRICT radius, REAL *RESTRICT theta)
{
    if (NAME(all_within)(q, count, RIGHT_ANGLE))
        for (int i = 0; i < count; i++)
            theta[i] = radius[i] * NAME(sine_near_zero)(q[i]);
    else
        for (int i = 0; i < count; i++) {
            q[i] = NAME(wrapped)(q[i]);
            theta[i] = radius[i] * NAME(sine)(q[i]);
        }
}

/* Move the elements from start to stop. */
static void NAME(move_elements)(const struct weight *w, int64_t start, int64_t stop)
{
    REAL theta_room[BLOCK], force_room[BLOCK], radius[BLOCK], unit[BLOCK];
    uint64_t keys[MOST_LETTERS];
    draw_keys(w, keys);
    const int circle = w->form == CIRCLE, whole = w->weight_type == FEW(FLOAT32, FLOAT64);
    for (int i = 0; i < BLOCK; i++) {
        radius[i] = circle ? (REAL)w->radius : 1;
        unit[i] = 1 / radius[i];
    }
    for (int64_t at = start; at < stop; at += BLOCK) {
        const int count = stop - at < BLOCK ? (int)(stop - at) : BLOCK;
        REAL *theta = theta_room;
        if (whole)
            theta = (REAL *)w->weight + at;
        else if (!circle || w->decay != 0)
            NAME(read)(w->weight, w->weight_type, at, count, theta_room);
        if (w->radii) {
            memcpy(radius, (const REAL *)w->radii + at, (size_t)count * sizeof(REAL));
            for (int i = 0; i < count; i++)
                unit[i] = 1 / radius[i];
        }
        const REAL *force = NAME(force)(w, at, count, theta, force_room);
        REAL *q = circle ? (REAL *)w->position + at : theta;
        if (w->program->letters)
            NAME(follow)(w, at, count, q, (REAL *)w->momentum + at, force, unit, keys);
        else
            NAME(euler)(w, at, count, q, force, unit, keys);
        if (circle)
            NAME(lower)(count, q, radius, theta);
        if (!whole)
            NAME(write)(w->weight, w->weight_type, at, count, theta);
    }
}
