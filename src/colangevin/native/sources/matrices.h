/* Products and sums of matrices: the products by the BLAS that torch is linked with, the sums here.
 *
 * A frame is s orthonormal vectors with r entries each: the rows of its matrix, or its columns where it is tall.
 */

/* to[j * WIDTH + i] <- from[i * stride + j] for a square as wide as a pack. */
static inline void NAME(turn_square)(const REAL *RESTRICT from, int64_t stride, REAL *RESTRICT to)
{
#if __has_builtin(__builtin_shufflevector)
    NAME(pack) row[NAME(WIDTH)];
    for (int i = 0; i < NAME(WIDTH); i++)
        row[i] = NAME(load)(from + i * stride);
#if DOUBLE
    EXCHANGE(4, LOW_8_4, HIGH_8_4)
    EXCHANGE(2, LOW_8_2, HIGH_8_2)
    EXCHANGE(1, LOW_8_1, HIGH_8_1)
#else
    EXCHANGE(8, LOW_16_8, HIGH_16_8)
    EXCHANGE(4, LOW_16_4, HIGH_16_4)
    EXCHANGE(2, LOW_16_2, HIGH_16_2)
    EXCHANGE(1, LOW_16_1, HIGH_16_1)
#endif
    for (int i = 0; i < NAME(WIDTH); i++)
        NAME(store)(to + i * NAME(WIDTH), row[i]);
#else
    for (int i = 0; i < NAME(WIDTH); i++)
        for (int j = 0; j < NAME(WIDTH); j++)
            to[j * NAME(WIDTH) + i] = from[i * stride + j];
#endif
}

/* The same for a square of which only so many columns are there. */
static inline void NAME(turn_part)(const REAL *RESTRICT from, int64_t stride, int columns, REAL *RESTRICT to)
{
    if (columns == NAME(WIDTH)) {
        NAME(turn_square)(from, stride, to);
        return;
    }
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < NAME(WIDTH); i++)
            to[j * NAME(WIDTH) + i] = from[i * stride + j];
}

/* Run BODY for every entry (i, j) of a matrix of side s, with its place in at and the entry (j, i) of other in mirrored. */
#define WITH_MIRRORED(s, other, BODY)                                                            \
    do {                                                                                         \
        enum { SIDE = NAME(WIDTH) };                                                             \
        REAL turned_[SIDE * SIDE];                                                               \
        for (int i0_ = 0; i0_ < (s); i0_ += SIDE)                                                \
            for (int j0_ = 0; j0_ < (s); j0_ += SIDE) {                                          \
                if (i0_ + SIDE <= (s) && j0_ + SIDE <= (s)) {                                    \
                    NAME(turn_square)((other) + (int64_t)j0_ * (s) + i0_, (s), turned_);         \
                    for (int i_ = 0; i_ < SIDE; i_++)                                            \
                        for (int j_ = 0; j_ < SIDE; j_++) {                                      \
                            const int64_t at = (int64_t)(i0_ + i_) * (s) + j0_ + j_;             \
                            const REAL mirrored = turned_[i_ * SIDE + j_];                       \
                            BODY                                                                 \
                        }                                                                        \
                } else {                                                                         \
                    for (int i_ = i0_; i_ < i0_ + SIDE && i_ < (s); i_++)                        \
                        for (int j_ = j0_; j_ < j0_ + SIDE && j_ < (s); j_++) {                  \
                            const int64_t at = (int64_t)i_ * (s) + j_;                           \
                            const REAL mirrored = (other)[(int64_t)j_ * (s) + i_];               \
                            BODY                                                                 \
                        }                                                                        \
                }                                                                                \
            }                                                                                    \
    } while (0)

struct NAME(shape) {
    int64_t threads; /* to share what is large with */
    int r, s, tall;
};

/* C <- scale A B + keep C, each matrix by rows; a letter T says that an operand is to be transposed. */
static inline void NAME(multiply)(
    char a_turned, const REAL *a, int64_t a_stride, char b_turned, const REAL *b, int64_t b_stride, int64_t rows,
    int64_t columns, int64_t depth, REAL scale, REAL keep, REAL *c, int64_t c_stride)
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
    for (int first = 0; first < s; first += NARROW)
        NAME(inner_rows)(f, x, x, first, first + NARROW < s ? NARROW : s - first, first, out);
    REAL turned[NAME(WIDTH) * NAME(WIDTH)];
    for (int first = NARROW; first < s; first += NAME(WIDTH))
        for (int j = 0; j < first / NARROW * NARROW; j += NAME(WIDTH)) {
            const int rows = first + NAME(WIDTH) <= s ? NAME(WIDTH) : s - first;
            NAME(turn_part)(out + (int64_t)j * s + first, s, rows, turned);
            for (int i = 0; i < rows; i++)
                memcpy(out + (int64_t)(first + i) * s + j, turned + i * NAME(WIDTH), sizeof(REAL) * NAME(WIDTH));
        }
}

/* Y <- keep Y + scale X N for a symmetric N */
static inline void NAME(along)(
    const struct NAME(shape) *f, const REAL *x, const REAL *n, REAL scale, REAL keep, REAL *y)
{
    const int s = f->s, r = f->r;
    if (f->tall)
        NAME(multiply)('N', x, s, 'N', n, s, r, s, s, scale, keep, y, s);
    else
        NAME(multiply)('N', n, s, 'N', x, r, s, r, s, scale, keep, y, r);
}

/* The bits of an absolute number: as whole numbers they are in the same order, with NaN as the largest, and vector
 * instructions find the largest of many. */
static inline BITS NAME(size_bits)(REAL x)
{
    return NAME(bits_of)(x) & (BITS)-1 >> 1;
}

/* The largest absolute number, NaN if there is one. */
static inline REAL NAME(largest)(const REAL *x, int64_t n)
{
    BITS largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const BITS size = NAME(size_bits)(x[i]);
        largest = size > largest ? size : largest;
    }
    return NAME(of_bits)(largest);
}

/* What of a matrix is symmetric, and what is not: half the sum and half the difference with its transpose, times scale. */
static inline void NAME(split)(const REAL *RESTRICT matrix, int s, REAL scale, REAL *RESTRICT even, REAL *RESTRICT odd)
{
    const REAL half = scale / 2;
    WITH_MIRRORED(s, matrix, {
        even[at] = half * (matrix[at] + mirrored);
        odd[at] = half * (matrix[at] - mirrored);
    });
}

/* out <- scale E + Y + Y^T for a symmetric E; returns the largest absolute entry, NaN if there is one. */
static inline REAL NAME(close)(const REAL *RESTRICT e, REAL scale, const REAL *RESTRICT y, int s, REAL *RESTRICT out)
{
    BITS largest = 0;
    WITH_MIRRORED(s, y, {
        const REAL sum = scale * e[at] + (y[at] + mirrored);
        const BITS size = NAME(size_bits)(sum);
        out[at] = sum;
        largest = size > largest ? size : largest;
    });
    return NAME(of_bits)(largest);
}

static inline double NAME(squares_of)(const REAL *x, int64_t n)
{
    return NAME(dot)(1, x, x, n);
}

/* The spectral norm of a symmetric matrix: the largest row sum bounds it from above; where that is more than enough, a
 * few turns of the power method tell it to a fifth or so. NaN if there is one. */
static inline REAL NAME(spectral_norm)(const REAL *matrix, int s, REAL enough, REAL *RESTRICT room)
{
    REAL bound = 0;
    for (int i = 0; i < s; i++) {
        const REAL *row = matrix + (int64_t)i * s;
        double sum;
        SUM(REAL, sum, s, ABS(row[i]));
        bound = sum <= (double)bound ? bound : (REAL)sum;
    }
    if (!(bound > enough))
        return bound;
    REAL *from = room, *to = room + s, length = 0;
    for (int i = 0; i < s; i++)
        from[i] = (i * 7 + 3) % 11 < 5 ? -1 : 1;
    for (int turn = 0; turn < 8; turn++) {
        const double size = sqrt(NAME(squares_of)(from, s));
        if (size == 0)
            return 0;
        for (int i = 0; i < s; i++)
            to[i] = (REAL)(NAME(dot)(1, matrix + (int64_t)i * s, from, s) / size);
        length = (REAL)sqrt(NAME(squares_of)(to, s));
        REAL *next = from;
        from = to;
        to = next;
    }
    length *= (REAL)1.2; /* the power method comes from below */
    return length < bound ? length : bound; /* the bound, if the squares have overflown */
}
