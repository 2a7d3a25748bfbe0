/* Products of matrices: C <- scale A B + keep C.
 *
 * A block of C is a unit of work. Of the columns of B that it needs a thread packs DEPTH rows at a time into strips as wide
 * as a tile; then it goes down A, some rows at a time, and along the strips. The sums of a tile stay in registers, its rows
 * of A in the first-level cache and the strips in the second. An entry is added up in one order, whatever the blocks are.
 */

#if defined(__AVX512F__)
enum { NAME(VECTOR) = 64 / sizeof(REAL) };
#elif defined(__AVX2__)
enum { NAME(VECTOR) = 32 / sizeof(REAL) };
#else
enum { NAME(VECTOR) = 16 / sizeof(REAL) };
#endif

typedef REAL NAME(vector) __attribute__((vector_size(sizeof(REAL) * NAME(VECTOR))));

enum {
    NAME(STRIP) = TILE_VECTORS * NAME(VECTOR),                             /* columns of a tile */
    NAME(MOST) = PACKED_BYTES / sizeof(REAL) / DEPTH / NAME(STRIP) * NAME(STRIP) /* columns of a block */
};

/* Entry (i, j) of a matrix is at[i * down + j * along]; one of the two is 1. */
struct NAME(operand) {
    const REAL *at;
    int64_t down, along;
};

struct NAME(product) {
    struct NAME(operand) a, b;
    int64_t rows, columns, depth;
    REAL scale, keep;
    REAL *c;
    int64_t c_down;
    int symmetric;                 /* whether what is before the diagonal may be left out */
    int64_t block_rows, block_columns;
};

/* Copy less than a vector, in pieces whose sizes the compiler knows. */
static inline __attribute__((always_inline)) void NAME(copy_part)(const REAL *from, int count, REAL *to)
{
#pragma GCC unroll 4
    for (int piece = NAME(VECTOR) / 2; piece > 0; piece /= 2)
        if (count & piece) {
            memcpy(to, from, sizeof(REAL) * (size_t)piece);
            from += piece;
            to += piece;
        }
}

/* A strip of B: its first rows lie so far apart in memory, the rest behind one another. */
struct NAME(strip) {
    const REAL *at, *rest;
    int64_t down, first;
};

/* A tile of C from some rows of A and a strip of B, which may be so many vectors wide, the last with so many columns. */
static inline __attribute__((always_inline)) void NAME(tile)(
    const int rows, const int vectors, const int packed, int64_t depth, const REAL *a, int64_t a_down,
    const struct NAME(strip) *b, REAL scale, REAL keep, int last, REAL *c, int64_t c_down)
{
    NAME(vector) sum[TILE_ROWS][TILE_VECTORS] = {0};
    const REAL *row = b->at;
    int64_t down = b->down;
    for (int64_t k = 0; k < depth; k++, row += down) {
        NAME(vector) of_b[TILE_VECTORS];
        if (k == b->first) {
            row = b->rest;
            down = vectors * NAME(VECTOR);
        }
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            memcpy(&of_b[v], row + v * NAME(VECTOR), sizeof of_b[v]);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const REAL of_a = packed ? a[k * rows + i] : a[i * a_down + k];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[i][v] += of_a * of_b[v];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            REAL *to = c + i * c_down + v * NAME(VECTOR);
            NAME(vector) out = scale * sum[i][v], before = {0};
            if (v < vectors - 1 || last == NAME(VECTOR)) {
                if (keep != 0) {
                    memcpy(&before, to, sizeof before);
                    out += keep * before;
                }
                memcpy(to, &out, sizeof out);
            } else {
                if (keep != 0) {
                    NAME(copy_part)(to, last, (REAL *)&before);
                    out += keep * before;
                }
                NAME(copy_part)((const REAL *)&out, last, to);
            }
        }
}

#define TILE_OF(count, width)                                                                                \
    NAME(tile)(count, width, packed, depth, a, a_down, b, scale, keep, last, c, c_down)
#define TILE_AS_WIDE(count)                                                                                  \
    do {                                                                                                     \
        if (vectors == 1)                                                                                    \
            TILE_OF(count, 1);                                                                               \
        else if (vectors == 2 || TILE_VECTORS == 2)                                                          \
            TILE_OF(count, 2);                                                                               \
        else                                                                                                 \
            TILE_OF(count, TILE_VECTORS);                                                                    \
    } while (0)

/* The same for numbers of rows and vectors that the compiler does not know. */
static inline __attribute__((always_inline)) void NAME(tile_of)(
    int64_t rows, int64_t vectors, const int packed, int64_t depth, const REAL *a, int64_t a_down,
    const struct NAME(strip) *b, REAL scale, REAL keep, int last, REAL *c, int64_t c_down)
{
    if (rows == TILE_ROWS)
        TILE_AS_WIDE(TILE_ROWS);
    else if (rows == 4)
        TILE_AS_WIDE(4);
    else if (rows == 2)
        TILE_AS_WIDE(2);
    else
        TILE_AS_WIDE(1);
}

/* Its two kinds apart: rows of A as they lie in memory, or packed. */
static __attribute__((noinline)) void NAME(tile_of_rows)(
    int64_t rows, int64_t vectors, int64_t depth, const REAL *a, int64_t a_down, const struct NAME(strip) *b, REAL scale,
    REAL keep, int last, REAL *c, int64_t c_down)
{
    NAME(tile_of)(rows, vectors, 0, depth, a, a_down, b, scale, keep, last, c, c_down);
}

static __attribute__((noinline)) void NAME(tile_of_packed)(
    int64_t rows, int64_t vectors, int64_t depth, const REAL *a, const struct NAME(strip) *b, REAL scale, REAL keep,
    int last, REAL *c, int64_t c_down)
{
    NAME(tile_of)(rows, vectors, 1, depth, a, 0, b, scale, keep, last, c, c_down);
}

#undef TILE_OF
#undef TILE_AS_WIDE

/* How many vectors are side by side in the strip that begins with a column. */
static inline int64_t NAME(vectors_from)(int64_t column, int64_t columns)
{
    const int64_t left = columns - column;
    return left >= NAME(STRIP) ? TILE_VECTORS : (left + NAME(VECTOR) - 1) / NAME(VECTOR);
}

/* Copy so many numbers of a row of B to a strip that wide. A whole strip is copied without a call. */
static inline void NAME(copy)(const REAL *RESTRICT from, int64_t count, REAL *RESTRICT to)
{
    if (count == NAME(STRIP))
#pragma GCC unroll 4
        for (int v = 0; v < TILE_VECTORS; v++)
            memcpy(to + v * NAME(VECTOR), from + v * NAME(VECTOR), sizeof(NAME(vector)));
    else
        memcpy(to, from, sizeof(REAL) * (size_t)count);
}

/* Whether tiles may read the rows of a block of B where they lie: then they are near one another in memory. */
static inline int NAME(in_place)(const struct NAME(product) *p)
{
    return p->b.along == 1 && p->b.down * p->depth * (int64_t)sizeof(REAL) <= NEAR_BYTES;
}

/* Pack a part of B from column first on: strip after strip, each by rows. Columns that are not there are 0. */
static inline void NAME(pack_strips)(
    const REAL *b, int64_t down, int64_t along, int64_t depth, int64_t first, int64_t columns, REAL *RESTRICT to)
{
    REAL turned[NAME(WIDTH) * NAME(WIDTH)];
    for (; first < columns; first += NAME(STRIP)) {
        const int64_t vectors = NAME(vectors_from)(first, columns), width = vectors * NAME(VECTOR);
        const int64_t there = most_of(width, columns - first);
        REAL *strip = to + first * depth;
        if (along == 1) {
            for (int64_t k = 0; k < depth; k++) {
                NAME(copy)(b + k * down + first, there, strip + k * width);
                for (int64_t j = there; j < width; j++)
                    strip[k * width + j] = 0;
            }
            continue;
        }
        for (int64_t j = 0; j < width; j += NAME(WIDTH)) {
            const int64_t wide = most_of(NAME(WIDTH), width - j);
            const int64_t full = most_of(wide, there - j); /* 0 or less where all of them are missing */
            for (int64_t k = 0; k < depth; k += NAME(WIDTH)) {
                const int64_t deep = most_of(NAME(WIDTH), depth - k);
                const REAL *from = b + (first + j) * along + k;
                if (full == NAME(WIDTH) && deep == NAME(WIDTH)) {
                    NAME(turn_square)(from, along, turned);
                    for (int m = 0; m < NAME(WIDTH); m++)
                        memcpy(strip + (k + m) * width + j, turned + m * NAME(WIDTH), sizeof(REAL) * NAME(WIDTH));
                    continue;
                }
                for (int64_t m = 0; m < deep; m++)
                    for (int64_t n = 0; n < wide; n++)
                        strip[(k + m) * width + j + n] = n < full ? from[n * along + m] : 0;
            }
        }
    }
}

/* Of so many rows of B from row k on, how many can be read as a strip from a column on without leaving B. */
static inline int64_t NAME(rows_to_read)(const struct NAME(product) *p, int64_t k, int64_t depth, int64_t column)
{
    const int64_t end = (p->depth - 1) * p->b.down + p->columns; /* of B */
    const int64_t width = NAME(vectors_from)(column, p->columns) * NAME(VECTOR);
    if (end < column + width)
        return 0;
    const int64_t rows = (end - column - width) / p->b.down + 1 - k;
    return rows < 0 ? 0 : most_of(rows, depth);
}

/* One block of C. */
static void NAME(multiply_block)(void *data, int64_t unit, void *room)
{
    const struct NAME(product) *p = data;
    const int64_t across = parts_of(p->columns, p->block_columns);
    const int64_t backwards = across - 1 - unit % across; /* of a symmetric C the longest work comes first */
    const int64_t top = unit / across * p->block_rows, left = backwards * p->block_columns;
    const int64_t columns = most_of(p->block_columns, p->columns - left);
    const int64_t last_row = p->symmetric ? most_of(p->rows, left + columns) : p->rows;
    const int64_t bottom = most_of(top + p->block_rows, last_row);
    const int packed = p->a.along != 1;
    const int near = NAME(in_place)(p);
    REAL of_a[TILE_ROWS * DEPTH];
    for (int64_t k = 0; k < p->depth; k += DEPTH) {
        const int64_t depth = most_of(DEPTH, p->depth - k);
        const REAL keep = k ? 1 : p->keep;
        const REAL *b = p->b.at + k * p->b.down + left * p->b.along;
        /* columns of strips that are read where they lie, and how many rows of the last one, which may be wider than its
         * columns: then what follows in memory is read too, if there is so much */
        const int64_t whole = near ? columns / NAME(STRIP) * NAME(STRIP) : 0;
        const int64_t first = near ? NAME(rows_to_read)(p, k, depth, left + whole) : 0;
        NAME(pack_strips)(b + first * p->b.down, p->b.down, p->b.along, depth - first, whole, columns, room);
        for (int64_t i = top, rows; i < bottom; i += rows) {
            rows = bottom - i;
            rows = rows >= TILE_ROWS ? TILE_ROWS : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
            const REAL *a = p->a.at + i * p->a.down + k * p->a.along;
            if (packed && rows == TILE_ROWS)
                for (int64_t m = 0; m < depth; m++)
                    memcpy(of_a + m * TILE_ROWS, a + m * p->a.along, sizeof(REAL) * TILE_ROWS);
            else if (packed)
                for (int64_t m = 0; m < depth; m++)
                    for (int64_t n = 0; n < rows; n++)
                        of_a[m * rows + n] = a[m * p->a.along + n];
            /* of a symmetric C, tiles that are read where they lie begin at the diagonal */
            const int64_t before = p->symmetric && i > left ? (i - left) / NAME(VECTOR) * NAME(VECTOR) : 0;
            for (int64_t j = most_of(before, whole), vectors; j < columns; j += vectors * NAME(VECTOR)) {
                vectors = NAME(vectors_from)(j, j < whole ? whole : columns);
                const int64_t end = left + j + vectors * NAME(VECTOR);
                const int64_t missing = end - left > columns ? end - left - columns : 0;
                const struct NAME(strip) strip = {
                    b + j, (REAL *)room + j * (depth - first), p->b.down, j < whole ? depth : first};
                REAL *c = p->c + i * p->c_down + left + j;
                if (p->symmetric && end <= i)
                    continue;
                if (packed)
                    NAME(tile_of_packed)
                    (rows, vectors, depth, of_a, &strip, p->scale, keep, (int)(NAME(VECTOR) - missing), c, p->c_down);
                else
                    NAME(tile_of_rows)
                    (rows, vectors, depth, a, p->a.down, &strip, p->scale, keep, (int)(NAME(VECTOR) - missing), c, p->c_down);
            }
        }
    }
}

/* Numbers of room that products of sides up to this take in each thread. */
static inline int64_t NAME(product_room)(int64_t side)
{
    const int64_t columns = parts_of(side, NAME(STRIP)) * NAME(STRIP);
    return most_of(side, DEPTH) * most_of(columns, NAME(MOST));
}

/* Cut C into blocks, and compute it. A cut between columns costs another pass over A; one between rows packs B once more,
 * which pays where A is much longer than B is wide. */
static void NAME(multiply)(struct NAME(product) *p, const struct hands *hands)
{
    const int64_t wanted = hands->threads > 1 ? BLOCKS_EACH * hands->threads : 1;
    int64_t down = 1, across = parts_of(p->columns, NAME(MOST));
    if (p->rows > 4 * p->columns)
        down = most_of(parts_of(wanted, across), parts_of(p->rows, TILE_ROWS));
    else
        across = across > wanted ? across : most_of(wanted, parts_of(p->columns, NAME(STRIP)));
    p->block_rows = share_of(p->rows, down, TILE_ROWS);
    p->block_columns = share_of(p->columns, across, NAME(STRIP));
    share(hands, NAME(multiply_block), p, parts_of(p->rows, p->block_rows) * parts_of(p->columns, p->block_columns));
}
