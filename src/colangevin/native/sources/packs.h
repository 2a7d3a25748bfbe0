/* Rows of numbers in packs of 64 bytes: passes that change a row and add up products on the way.
 *
 * Partial sums are emptied into a double after TURNS packs, so that a long row keeps its length to rounding.
 */

typedef REAL NAME(pack) __attribute__((vector_size(64)));

enum { NAME(WIDTH) = 64 / sizeof(REAL) };

static inline NAME(pack) NAME(load)(const REAL *from)
{
    NAME(pack) x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void NAME(store)(REAL *to, NAME(pack) x)
{
    memcpy(to, &x, sizeof x);
}

static inline double NAME(total)(NAME(pack) x)
{
    REAL part[NAME(WIDTH)];
    memcpy(part, &x, sizeof x);
    for (int half = NAME(WIDTH) / 2; half > 1; half /= 2)
        for (int j = 0; j < half; j++)
            part[j] += part[j + half];
    return (double)part[0] + (double)part[1];
}

/* The sum of products of two rows. */
static inline double NAME(dot)(const REAL *RESTRICT x, const REAL *RESTRICT y, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    while (i + NAME(WIDTH) <= n) {
        NAME(pack) part = {0};
        for (int k = 0; k < TURNS && i + NAME(WIDTH) <= n; k++, i += NAME(WIDTH))
            part += NAME(load)(x + i) * NAME(load)(y + i);
        sum += NAME(total)(part);
    }
    for (; i < n; i++)
        sum += (double)(x[i] * y[i]);
    return sum;
}

/* y <- a y + b z; adds to the sums of x y and y^2. */
static inline void NAME(combine)(
    const REAL *RESTRICT x, REAL *RESTRICT y, const REAL *RESTRICT z, REAL a, REAL b, int64_t n, double *xy, double *yy)
{
    int64_t i = 0;
    while (i + NAME(WIDTH) <= n) {
        NAME(pack) along = {0}, square = {0};
        for (int k = 0; k < TURNS && i + NAME(WIDTH) <= n; k++, i += NAME(WIDTH)) {
            NAME(pack) sum = a * NAME(load)(y + i) + b * NAME(load)(z + i);
            along += NAME(load)(x + i) * sum;
            square += sum * sum;
            NAME(store)(y + i, sum);
        }
        *xy += NAME(total)(along);
        *yy += NAME(total)(square);
    }
    for (; i < n; i++) {
        y[i] = a * y[i] + b * z[i];
        *xy += (double)(x[i] * y[i]);
        *yy += (double)(y[i] * y[i]);
    }
}

/* y <- y + b x; returns the sum of y^2. */
static inline double NAME(add)(const REAL *RESTRICT x, REAL *RESTRICT y, REAL b, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    while (i + NAME(WIDTH) <= n) {
        NAME(pack) square = {0};
        for (int k = 0; k < TURNS && i + NAME(WIDTH) <= n; k++, i += NAME(WIDTH)) {
            NAME(pack) moved = NAME(load)(y + i) + b * NAME(load)(x + i);
            square += moved * moved;
            NAME(store)(y + i, moved);
        }
        sum += NAME(total)(square);
    }
    for (; i < n; i++) {
        y[i] += b * x[i];
        sum += (double)(y[i] * y[i]);
    }
    return sum;
}

/* (x, y) <- (a x + b y, c y - d x), and the sums of x^2 and x y. */
static inline void NAME(turn)(
    REAL *RESTRICT x, REAL *RESTRICT y, REAL a, REAL b, REAL c, REAL d, int64_t n, double *xx, double *xy)
{
    int64_t i = 0;
    *xx = *xy = 0;
    while (i + NAME(WIDTH) <= n) {
        NAME(pack) square = {0}, along = {0};
        for (int k = 0; k < TURNS && i + NAME(WIDTH) <= n; k++, i += NAME(WIDTH)) {
            NAME(pack) x_old = NAME(load)(x + i), y_old = NAME(load)(y + i);
            NAME(pack) x_new = a * x_old + b * y_old, y_new = c * y_old - d * x_old;
            square += x_new * x_new;
            along += x_new * y_new;
            NAME(store)(x + i, x_new);
            NAME(store)(y + i, y_new);
        }
        *xx += NAME(total)(square);
        *xy += NAME(total)(along);
    }
    for (; i < n; i++) {
        REAL x_old = x[i];
        x[i] = a * x_old + b * y[i];
        y[i] = c * y[i] - d * x_old;
        *xx += (double)(x[i] * x[i]);
        *xy += (double)(x[i] * y[i]);
    }
}
