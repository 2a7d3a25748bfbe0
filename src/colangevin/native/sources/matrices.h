/* Products and sums of matrices: the products by the BLAS that torch is linked with, the sums here.
 *
 * A frame is s orthonormal vectors with r entries each: the rows of its matrix, or its columns where it is tall.
 */

struct NAME(shape) {
    int64_t threads; /* to share what is large with */
    int r, s, tall;
};

/* C <- scale A B + keep C, each matrix by rows; a letter T says that an operand is to be transposed. */
static inline void NAME(multiply)(
    char a_turned, const REAL *a, int a_stride, char b_turned, const REAL *b, int b_stride, int rows, int columns,
    int depth, REAL scale, REAL keep, REAL *c, int c_stride)
{
    /* BLAS has matrices by columns, and these are the transposes of ours */
    NAME(gemm)(
        &b_turned, &a_turned, &columns, &rows, &depth, &scale, b, &b_stride, a, &a_stride, &keep, c, &c_stride, 1, 1);
}

/* C <- A B of side s. */
static inline void NAME(square_product)(const REAL *a, const REAL *b, int s, REAL *c)
{
    NAME(multiply)('N', a, s, 'N', b, s, s, s, s, 1, 0, c, s);
}

/* out <- X^T Y, from row first on and no entry before the diagonal's block. */
static inline void NAME(inner_rows)(
    const struct NAME(shape) *f, const REAL *x, const REAL *y, int first, int rows, int from, REAL *out)
{
    const int s = f->s, r = f->r;
    if (f->tall)
        NAME(multiply)('T', x + first, s, 'N', y + from, s, rows, s - from, r, 1, 0, out + (int64_t)first * s + from, s);
    else
        NAME(multiply)(
            'N', x + (int64_t)first * r, r, 'T', y + (int64_t)from * r, r, rows, s - from, r, 1, 0,
            out + (int64_t)first * s + from, s);
}

/* out <- X^T Y */
static inline void NAME(inner)(const struct NAME(shape) *f, const REAL *x, const REAL *y, REAL *out)
{
    NAME(inner_rows)(f, x, y, 0, f->s, 0, out);
}

/* out <- X^T X; blocks before the diagonal are copied from those behind it. */
static inline void NAME(gram)(const struct NAME(shape) *f, const REAL *x, REAL *out)
{
    const int s = f->s;
    if (s < 2 * NARROW) {
        NAME(inner)(f, x, x, out);
        return;
    }
    for (int first = 0; first < s; first += NARROW)
        NAME(inner_rows)(f, x, x, first, first + NARROW < s ? NARROW : s - first, first, out);
    for (int i0 = TILE; i0 < s; i0 += TILE)
        for (int j0 = 0; j0 < i0; j0 += TILE)
            for (int i = i0; i < i0 + TILE && i < s; i++)
                for (int j = j0; j < j0 + TILE; j++)
                    out[(int64_t)i * s + j] = out[(int64_t)j * s + i];
}

/* Y <- Y + scale X N for a symmetric N */
static inline void NAME(add_along)(const struct NAME(shape) *f, const REAL *x, const REAL *n, REAL scale, REAL *y)
{
    const int s = f->s, r = f->r;
    if (f->tall)
        NAME(multiply)('N', x, s, 'N', n, s, r, s, s, scale, 1, y, s);
    else
        NAME(multiply)('N', n, s, 'N', x, r, s, r, s, scale, 1, y, r);
}

/* What of a matrix is symmetric, and what is not: half the sum and half the difference with its transpose, times scale. */
static inline void NAME(split)(const REAL *matrix, int s, REAL scale, REAL *RESTRICT even, REAL *RESTRICT odd)
{
    const REAL half = scale / 2;
    for (int i0 = 0; i0 < s; i0 += TILE)
        for (int j0 = 0; j0 < s; j0 += TILE)
            for (int i = i0; i < i0 + TILE && i < s; i++)
                for (int j = j0; j < j0 + TILE && j < s; j++) {
                    const REAL one = matrix[(int64_t)i * s + j], other = matrix[(int64_t)j * s + i];
                    even[(int64_t)i * s + j] = half * (one + other);
                    odd[(int64_t)i * s + j] = half * (one - other);
                }
}

/* out <- scale E + Y + Y^T for a symmetric E; returns the largest absolute entry, NaN if there is one. */
static inline REAL NAME(close)(const REAL *RESTRICT e, REAL scale, const REAL *y, int s, REAL *RESTRICT out)
{
    REAL largest = 0;
    int broken = 0;
    for (int i0 = 0; i0 < s; i0 += TILE)
        for (int j0 = 0; j0 < s; j0 += TILE)
            for (int i = i0; i < i0 + TILE && i < s; i++)
                for (int j = j0; j < j0 + TILE && j < s; j++) {
                    const REAL sum = scale * e[(int64_t)i * s + j] + (y[(int64_t)i * s + j] + y[(int64_t)j * s + i]);
                    out[(int64_t)i * s + j] = sum;
                    largest = ABS(sum) > largest ? ABS(sum) : largest;
                    broken |= sum != sum;
                }
    return broken ? (REAL)NAN : largest;
}

static inline double NAME(squares_of)(const REAL *x, int64_t n)
{
    return NAME(dot)(x, x, n);
}

/* The spectral norm of a symmetric matrix: the largest row sum bounds it from above; where that is more than enough, a
 * few turns of the power method tell it to a fifth or so. */
static inline REAL NAME(spectral_norm)(const REAL *matrix, int s, REAL enough, REAL *RESTRICT room)
{
    REAL bound = 0;
    for (int i = 0; i < s; i++) {
        REAL sum = 0;
        for (int j = 0; j < s; j++)
            sum += ABS(matrix[(int64_t)i * s + j]);
        bound = sum > bound ? sum : bound;
    }
    if (!(bound > enough))
        return bound;
    REAL *from = room, *to = room + s, length = 0;
    for (int i = 0; i < s; i++)
        from[i] = (i * 7 + 3) % 11 < 5 ? -1 : 1;
    for (int turn = 0; turn < 8; turn++) {
        const double size = sqrt(NAME(squares_of)(from, s));
        if (!(size > 0))
            return 0;
        for (int i = 0; i < s; i++)
            to[i] = (REAL)(NAME(dot)(matrix + (int64_t)i * s, from, s) / size);
        length = (REAL)sqrt(NAME(squares_of)(to, s));
        REAL *next = from;
        from = to;
        to = next;
    }
    length *= (REAL)1.2; /* the power method comes from below */
    return length < bound ? length : bound;
}
