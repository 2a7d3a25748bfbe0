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

/* The sum of u x y over two rows. */
static inline double NAME(dot)(REAL u, const REAL *x, const REAL *y, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    while (i + NAME(WIDTH) <= n) {
        NAME(pack) part = {0};
        for (int k = 0; k < TURNS && i + NAME(WIDTH) <= n; k++, i += NAME(WIDTH))
            part += u * NAME(load)(x + i) * NAME(load)(y + i);
        sum += NAME(total)(part);
    }
    for (; i < n; i++)
        sum += (double)(u * x[i] * y[i]);
    return sum;
}

/* y <- a y + b z; adds to the sums of (u x)^2, u x y and y^2. Asks memory for z as far ahead as is said. */
static inline void NAME(combine)(
    REAL u, const REAL *RESTRICT x, REAL a, REAL *RESTRICT y, REAL b, const REAL *RESTRICT z, int64_t n, int64_t ahead,
    double sums[3])
{
    int64_t i = 0;
    while (i + NAME(WIDTH) <= n) {
        NAME(pack) first = {0}, along = {0}, second = {0};
        for (int k = 0; k < TURNS && i + NAME(WIDTH) <= n; k++, i += NAME(WIDTH)) {
            NAME(pack) scaled = u * NAME(load)(x + i), sum = a * NAME(load)(y + i) + b * NAME(load)(z + i);
            __builtin_prefetch(z + i + ahead);
            first += scaled * scaled;
            along += scaled * sum;
            second += sum * sum;
            NAME(store)(y + i, sum);
        }
        sums[0] += NAME(total)(first);
        sums[1] += NAME(total)(along);
        sums[2] += NAME(total)(second);
    }
    for (; i < n; i++) {
        const REAL scaled = u * x[i];
        y[i] = a * y[i] + b * z[i];
        sums[0] += (double)(scaled * scaled);
        sums[1] += (double)(scaled * y[i]);
        sums[2] += (double)(y[i] * y[i]);
    }
}

/* y <- y + b u x; returns the sum of y^2. */
static inline double NAME(add)(REAL u, const REAL *RESTRICT x, REAL *RESTRICT y, REAL b, int64_t n)
{
    double sum = 0;
    int64_t i = 0;
    while (i + NAME(WIDTH) <= n) {
        NAME(pack) square = {0};
        for (int k = 0; k < TURNS && i + NAME(WIDTH) <= n; k++, i += NAME(WIDTH)) {
            NAME(pack) moved = NAME(load)(y + i) + b * (u * NAME(load)(x + i));
            square += moved * moved;
            NAME(store)(y + i, moved);
        }
        sum += NAME(total)(square);
    }
    for (; i < n; i++) {
        y[i] += b * (u * x[i]);
        sum += (double)(y[i] * y[i]);
    }
    return sum;
}

/* (x, y) <- (a u x + b y, c y + d u x). Asks memory for both as far ahead as is said. */
static inline void NAME(turn)(
    REAL u, REAL *RESTRICT x, REAL *RESTRICT y, REAL a, REAL b, REAL c, REAL d, int64_t n, int64_t ahead)
{
    int64_t i = 0;
    for (; i + NAME(WIDTH) <= n; i += NAME(WIDTH)) {
        NAME(pack) x_old = u * NAME(load)(x + i), y_old = NAME(load)(y + i);
        __builtin_prefetch(x + i + ahead, 1);
        __builtin_prefetch(y + i + ahead, 1);
        NAME(store)(x + i, a * x_old + b * y_old);
        NAME(store)(y + i, c * y_old + d * x_old);
    }
    for (; i < n; i++) {
        const REAL x_old = u * x[i], y_old = y[i];
        x[i] = a * x_old + b * y_old;
        y[i] = c * y_old + d * x_old;
    }
}
