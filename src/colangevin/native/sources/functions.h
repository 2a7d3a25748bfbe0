/* Elementary functions of REAL numbers without a branch, so that loops over them become vector instructions.
 *
 * The polynomials interpolate at Chebyshev nodes; their errors are below half a unit in the last place. FEW(a, b)
 * is a in float and b in double.
 */

/* The whole number nearest to a small x: a sum of this size has no bits for a fraction. */
static inline REAL NAME(rounded)(REAL x)
{
    const REAL large = FEW(12582912.0f, 6755399441055744.0);
    return (x + large) - large;
}

/* The whole number nearest to x; a large x is taken to be one. */
static inline REAL NAME(nearest)(REAL x)
{
    return ABS(x) < FEW(4194304.0f, 2251799813685248.0) ? NAME(rounded)(x) : x;
}

/* An angle less whole turns, in [-pi, pi]. */
static inline REAL NAME(wrapped)(REAL angle)
{
    const REAL turn = (REAL)6.283185307179586476925, pi = (REAL)3.141592653589793238463;
    angle -= turn * NAME(nearest)(angle * (REAL)0.1591549430918953357689);
    angle -= turn * NAME(nearest)(angle * (REAL)0.1591549430918953357689); /* of many turns the first rounds */
    angle = angle > pi ? pi : angle;
    return angle < -pi ? -pi : angle;
}

/* Sine up to a right angle. */
static inline REAL NAME(sine_near_zero)(REAL y)
{
    REAL z = y * y;
#if DOUBLE
    REAL s = 2.73144476698639934e-15;
    s = s * z - 7.64397029679857205e-13;
    s = s * z + 1.60589773124640876e-10;
    s = s * z - 2.50521076169961829e-8;
    s = s * z + 2.75573192191632334e-6;
    s = s * z - 1.98412698412549738e-4;
    s = s * z + 8.33333333333331587e-3;
    s = s * z - 1.66666666666666666e-1;
#else
    REAL s = 2.605780446190e-6f;
    s = s * z - 1.980960280338e-4f;
    s = s * z + 8.333066244500e-3f;
    s = s * z - 1.666665955035e-1f;
#endif
    return y + y * (z * s);
}

/* Sine of an angle in [-pi, pi]. */
static inline REAL NAME(sine)(REAL angle)
{
    const REAL pi = FEW(3.1415927410125732f, 3.141592653589793116);
    const REAL rest = FEW(-8.742277657347586e-08f, 1.2246467991473532e-16);
    REAL size = ABS(angle);
    REAL y = size > (REAL)1.570796326794896619231 ? (pi - size) + rest : size;
    REAL value = NAME(sine_near_zero)(y);
    return angle < 0 ? -value : value;
}

/* Cosine of an angle in [-pi, pi]. */
static inline REAL NAME(cosine)(REAL angle)
{
    const REAL half_pi = FEW(1.5707963705062866f, 1.570796326794896558);
    const REAL rest = FEW(-4.371138828673793e-08f, 6.123233995736766e-17);
    return NAME(sine_near_zero)((half_pi - ABS(angle)) + rest);
}

/* Sine and cosine of an angle in [-pi, pi], by reduction to an eighth of a turn. */
static inline void NAME(sine_and_cosine)(REAL angle, REAL *sine, REAL *cosine)
{
    REAL n = NAME(rounded)(angle * (REAL)0.6366197723675813430755);
#if DOUBLE
    REAL y = angle - n * 1.570796326734125614166;
    y -= n * 6.077100506506192601e-11;
    REAL z = y * y;
    REAL s = 1.59181292948666087e-10;
    s = s * z - 2.50511318450036244e-8;
    s = s * z + 2.75573161025524401e-6;
    s = s * z - 1.98412698367585743e-4;
    s = s * z + 8.33333333333094849e-3;
    s = s * z - 1.66666666666666646e-1;
    REAL c = -1.1382632425521718e-11;
    c = c * z + 2.08761462684031979e-9;
    c = c * z - 2.75573172717297929e-7;
    c = c * z + 2.48015872987656879e-5;
    c = c * z - 1.38888888888873972e-3;
    c = c * z + 4.16666666666666654e-2;
#else
    REAL y = angle - n * 1.5703125f; /* n times each of the first two parts of pi/2 is exact */
    y -= n * 4.837512969970703e-4f;
    y -= n * 7.549789948768648e-8f;
    REAL z = y * y;
    REAL s = -1.95878908804123858e-4f;
    s = s * z + 8.33274827062974948e-3f;
    s = s * z - 1.66666646623143786e-1f;
    REAL c = 2.45479420850715725e-5f;
    c = c * z - 1.3888303035894866e-3f;
    c = c * z + 4.16666646595022068e-2f;
#endif
    s = y + y * (z * s);
    c = (1 - (REAL)0.5 * z) + z * z * c;
    REAL odd = n * (REAL)0.5; /* n is -2 to 2: a half tells that sine and cosine change places */
    int swapped = NAME(rounded)(odd) != odd;
    REAL first = swapped ? c : s, second = swapped ? s : c;
    *sine = n < (REAL)-1.5 || n == -1 || n > (REAL)1.5 ? -first : first;
    *cosine = n < (REAL)-1.5 || n == 1 || n > (REAL)1.5 ? -second : second;
}

/* Natural logarithm of a normal number. */
static inline REAL NAME(logarithm)(REAL x)
{
    /* the significand between sqrt(1/2) and sqrt(2), and the exponent that goes with it, plus an offset */
    const BITS root = FEW(0x3f3504f3u, 0x3fe6a09e667f3bcdull), one = FEW(0x800000u, 0x10000000000000ull);
    BITS parts = NAME(bits_of)(x) - root + FEW(128, 1024) * one;
    REAL exponent = (REAL)((int32_t)(parts / one) - FEW(128, 1024));
    REAL m = NAME(of_bits)(parts % one + root);
    REAL f = m - 1, s = f / (2 + f), z = s * s;
#if DOUBLE
    REAL t = 0.146164496850434074;
    t = t * z + 0.153317216005560411;
    t = t * z + 0.181828891252617221;
    t = t * z + 0.222222111347950799;
    t = t * z + 0.285714286259754849;
    t = t * z + 0.399999999998995045;
    t = t * z + 0.666666666666666969;
#else
    REAL t = 0.295799493919727859f;
    t = t * z + 0.399887805660219819f;
    t = t * z + 0.66666685039575855f;
#endif
    /* log(1 + f) = 2 s + s z t = f - s (f - z t) */
    REAL low = exponent * FEW(-2.12194440e-4f, 1.90821492927058770002e-10) - s * (f - z * t);
    return exponent * FEW(0.693359375f, 6.93147180369123816490e-01) + (f + low);
}

/* The angle of the point (x, y), 0 at the origin. */
static inline REAL NAME(angle_of)(REAL y, REAL x)
{
    REAL ay = ABS(y), ax = ABS(x);
    REAL larger = ax > ay ? ax : ay, smaller = ax > ay ? ay : ax;
    REAL t = smaller / (larger == 0 ? 1 : larger);
    int upper = t > (REAL)0.4142135623730950488017;
    REAL reduced = (t - 1) / (t + 1);
    t = upper ? reduced : t;
    REAL z = t * t;
#if DOUBLE
    REAL a = 0.0162857568552210283;
    a = a * z - 0.0345705619814277469;
    a = a * z + 0.0455159322062654917;
    a = a * z - 0.0523045427065024452;
    a = a * z + 0.0587892899783477513;
    a = a * z - 0.0666642488573825533;
    a = a * z + 0.076922963750321424;
    a = a * z - 0.0909090875350087684;
    a = a * z + 0.111111111051554466;
    a = a * z - 0.142857142856598276;
    a = a * z + 0.199999999999998045;
    a = a * z - 0.333333333333333332;
#else
    REAL a = -0.0645192820812174876f;
    a = a * z + 0.10743731490791083f;
    a = a * z - 0.142639555979846392f;
    a = a * z + 0.199995404836489634f;
    a = a * z - 0.333333317611685199f;
#endif
    a = t + t * (z * a);
    a = upper ? (REAL)0.785398163397448309616 + a : a;
    a = ay > ax ? (REAL)1.570796326794896619231 - a : a;
    a = x < 0 ? (REAL)3.141592653589793238463 - a : a;
    return y < 0 ? -a : a;
}
