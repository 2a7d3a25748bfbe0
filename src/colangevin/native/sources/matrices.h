/* Products and sums of the matrices of a step.
 *
 * A frame is s orthonormal vectors with r entries each: the rows of its matrix, or its columns where it is tall.
 */

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
    const struct hands *hands;
    int r, s, tall;
};

/* C <- A B of side s. */
static inline void NAME(square_product)(const struct NAME(shape) *f, const REAL *a, const REAL *b, REAL *c)
{
    const int64_t s = f->s;
    struct NAME(product) product = {
        .a = {a, s, 1}, .b = {b, s, 1}, .rows = s, .columns = s, .depth = s, .scale = 1, .c = c, .c_down = s};
    NAME(multiply)(&product, f->hands);
}

/* out <- X^T Y, or no more than its entries from the diagonal on. */
static inline void NAME(inner_of)(
    const struct NAME(shape) *f, const REAL *x, const REAL *y, int symmetric, REAL *out)
{
    const int64_t s = f->s, r = f->r;
    struct NAME(product) product = {
        .a = {x, f->tall ? 1 : r, f->tall ? s : 1}, .b = {y, f->tall ? s : 1, f->tall ? 1 : r}, .rows = s, .columns = s,
        .depth = r, .scale = 1, .c = out, .c_down = s, .symmetric = symmetric};
    NAME(multiply)(&product, f->hands);
}

/* out <- X^T Y */
static inline void NAME(inner)(const struct NAME(shape) *f, const REAL *x, const REAL *y, REAL *out)
{
    NAME(inner_of)(f, x, y, 0, out);
}

/* Copy what is behind the diagonal to where it stands mirrored. */
static inline void NAME(mirror)(REAL *out, int s)
{
    REAL turned[NAME(WIDTH) * NAME(WIDTH)];
    for (int first = 0; first < s; first += NAME(WIDTH)) {
        const int rows = first + NAME(WIDTH) <= s ? NAME(WIDTH) : s - first;
        for (int j = 0; j < first; j += NAME(WIDTH)) {
            NAME(turn_part)(out + (int64_t)j * s + first, s, rows, turned);
            for (int i = 0; i < rows; i++)
                memcpy(out + (int64_t)(first + i) * s + j, turned + i * NAME(WIDTH), sizeof(REAL) * NAME(WIDTH));
        }
        for (int i = first; i < first + rows; i++)
            for (int j = first; j < i; j++)
                out[(int64_t)i * s + j] = out[(int64_t)j * s + i];
    }
}

/* out <- X^T X */
static inline void NAME(gram)(const struct NAME(shape) *f, const REAL *x, REAL *out)
{
    NAME(inner_of)(f, x, x, 1, out);
    NAME(mirror)(out, f->s);
}

/* C <- A^T B of side s, where that is symmetric: half of C is the other half mirrored. */
static inline void NAME(even_product)(
    const struct NAME(shape) *f, struct NAME(operand) turned_a, const REAL *b, REAL *c)
{
    const int64_t s = f->s;
    struct NAME(product) product = {.a = turned_a, .b = {b, s, 1}, .rows = s, .columns = s, .depth = s, .scale = 1, .c = c,
                                    .c_down = s, .symmetric = 1};
    NAME(multiply)(&product, f->hands);
    NAME(mirror)(c, f->s);
}

/* C <- B^T B of side s */
static inline void NAME(square_gram)(const struct NAME(shape) *f, const REAL *b, REAL *c)
{
    NAME(even_product)(f, (struct NAME(operand)){b, 1, f->s}, b, c);
}

/* C <- A B of side s, for symmetric A and B that commute. */
static inline void NAME(commuting_product)(const struct NAME(shape) *f, const REAL *a, const REAL *b, REAL *c)
{
    NAME(even_product)(f, (struct NAME(operand)){a, f->s, 1}, b, c);
}

/* Y <- keep Y + scale X N for a symmetric N */
static inline void NAME(along)(
    const struct NAME(shape) *f, const REAL *x, const REAL *n, REAL scale, REAL keep, REAL *y)
{
    const int64_t s = f->s, r = f->r;
    struct NAME(product) product = {.scale = scale, .keep = keep, .c = y, .depth = s};
    if (f->tall) {
        product.a = (struct NAME(operand)){x, s, 1};
        product.b = (struct NAME(operand)){n, s, 1};
        product.rows = r;
        product.columns = product.c_down = s;
    } else {
        product.a = (struct NAME(operand)){n, s, 1};
        product.b = (struct NAME(operand)){x, r, 1};
        product.rows = s;
        product.columns = product.c_down = r;
    }
    NAME(multiply)(&product, f->hands);
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

/* out <- E + Y + Y^T for a symmetric E; returns the largest absolute entry, NaN if there is one. */
static inline REAL NAME(close)(const REAL *RESTRICT e, const REAL *RESTRICT y, int s, REAL *RESTRICT out)
{
    BITS largest = 0;
    WITH_MIRRORED(s, y, {
        const REAL sum = e[at] + (y[at] + mirrored);
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

/* to <- A from for a symmetric A, or the sums of the absolute numbers of its columns where there is no from. */
static inline void NAME(apply_even)(const REAL *RESTRICT matrix, int s, const REAL *RESTRICT from, REAL *RESTRICT to)
{
    int i = 0;
    for (int j = 0; j < s; j++)
        to[j] = 0;
    for (; i + 4 <= s; i += 4) {
        const REAL *a = matrix + (int64_t)i * s, *b = a + s, *c = b + s, *d = c + s;
        if (from)
            for (int j = 0; j < s; j++)
                to[j] += (from[i] * a[j] + from[i + 1] * b[j]) + (from[i + 2] * c[j] + from[i + 3] * d[j]);
        else
            for (int j = 0; j < s; j++)
                to[j] += (ABS(a[j]) + ABS(b[j])) + (ABS(c[j]) + ABS(d[j]));
    }
    for (; i < s; i++)
        for (int j = 0; j < s; j++) {
            const REAL entry = matrix[(int64_t)i * s + j];
            to[j] += from ? from[i] * entry : ABS(entry);
        }
}

/* The spectral norm of a symmetric matrix: the largest row sum bounds it from above; where that is more than enough, a
 * few turns of the power method tell it to a fifth or so. NaN if there is one. */
static inline REAL NAME(spectral_norm)(const REAL *matrix, int s, REAL enough, REAL *RESTRICT room)
{
    REAL *from = room, *to = room + s, length = 0;
    NAME(apply_even)(matrix, s, NULL, to);
    const REAL bound = NAME(largest)(to, s);
    if (!(bound > enough))
        return bound;
    for (int i = 0; i < s; i++)
        from[i] = (i * 7 + 3) % 11 < 5 ? -1 : 1;
    for (int turn = 0; turn < 8; turn++) {
        const double size = sqrt(NAME(squares_of)(from, s));
        if (!(size > 0 && size < INFINITY))
            return bound;
        for (int i = 0; i < s; i++)
            from[i] = (REAL)((double)from[i] / size);
        NAME(apply_even)(matrix, s, from, to);
        length = (REAL)sqrt(NAME(squares_of)(to, s));
        REAL *next = from;
        from = to;
        to = next;
    }
    length *= (REAL)1.2; /* the power method comes from below */
    return length < bound ? length : bound; /* the bound, if the squares have overflown */
}
