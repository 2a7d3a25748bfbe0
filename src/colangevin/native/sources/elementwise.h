/* Weights whose elements move alone: on lines, or on circles with their angle as position. */


/* The gradient of what is minimised, weight decay included. */
static inline const REAL *NAME(force)(
    const struct weight *w, int64_t start, int count, const REAL *theta, REAL *buffer)
{
    const REAL *gradient = NAME(read)(w->gradient, w->gradient_type, start, count, buffer);
    const REAL sign = w->maximize ? -1 : 1, decay = (REAL)w->decay;
    if (decay != 0)
        for (int i = 0; i < count; i++)
            buffer[i] = sign * gradient[i] + decay * theta[i];
    else if (sign < 0)
        for (int i = 0; i < count; i++)
            buffer[i] = -gradient[i];
    else
        return gradient;
    return buffer;
}

/* The letters of a segment on a block: q and p are changed in place. */
static inline void NAME(follow)(
    const struct weight *w, int64_t start, int count, REAL *RESTRICT q, REAL *RESTRICT p,
    const REAL *RESTRICT force, const REAL *RESTRICT unit)
{
    REAL noise[BLOCK];
    const struct program *program = w->program;
    int draw = 0;
    for (int k = 0; k < program->letters; k++) {
        const REAL number = (REAL)program->number[k], scale = (REAL)program->scale[k];
        switch (program->letter[k]) {
        case 'A':
            for (int i = 0; i < count; i++)
                q[i] += number * p[i];
            break;
        case 'B':
            if (w->form == CIRCLE)
                for (int i = 0; i < count; i++)
                    p[i] -= number * (NAME(cosine)(q[i]) * force[i] * unit[i]);
            else
                for (int i = 0; i < count; i++)
                    p[i] -= number * force[i];
            break;
        default:
            if (program->noisy) {
                NAME(normals)(draw_key(w, draw++), start, count, noise);
                for (int i = 0; i < count; i++)
                    p[i] = number * p[i] + scale * (noise[i] * unit[i]);
            } else {
                for (int i = 0; i < count; i++)
                    p[i] *= number;
            }
        }
    }
}

/* Euler and Maruyama's step of a block, with projection on circles. */
static inline void NAME(euler)(
    const struct weight *w, int64_t start, int count, REAL *RESTRICT q, const REAL *RESTRICT force,
    const REAL *RESTRICT unit)
{
    REAL noise[2 * BLOCK];
    const struct program *program = w->program;
    const REAL h = (REAL)program->number[0], sigma = (REAL)program->scale[0];
    if (w->form == LINE) {
        for (int i = 0; i < count; i++)
            q[i] -= h * force[i];
        if (program->noisy) {
            NAME(normals)(draw_key(w, 0), start, count, noise);
            for (int i = 0; i < count; i++)
                q[i] += sigma * noise[i];
        }
        return;
    }
    if (program->noisy)
        NAME(normals)(draw_key(w, 0), 2 * start, 2 * (int64_t)count, noise);
    else
        memset(noise, 0, sizeof noise);
    for (int i = 0; i < count; i++) {
        /* in units of the radius */
        REAL x, y;
        NAME(sine_and_cosine)(q[i], &x, &y);
        x += (sigma * noise[2 * i] - h * force[i]) * unit[i];
        y += sigma * noise[2 * i + 1] * unit[i];
        q[i] = NAME(angle_of)(x, y);
    }
}

/* Move the elements from start to stop. */
static void NAME(move_elements)(const struct weight *w, int64_t start, int64_t stop)
{
    REAL theta_room[BLOCK], force_room[BLOCK], radius[BLOCK], unit[BLOCK];
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
            NAME(follow)(w, at, count, q, (REAL *)w->momentum + at, force, unit);
        else
            NAME(euler)(w, at, count, q, force, unit);
        if (circle)
            for (int i = 0; i < count; i++) {
                q[i] = NAME(wrapped)(q[i]);
                theta[i] = radius[i] * NAME(sine)(q[i]);
            }
        if (!whole)
            NAME(write)(w->weight, w->weight_type, at, count, theta);
    }
}
