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
    angle = FMA(-turn, NAME(nearest)(angle * (REAL)0.1591549430918953357689), angle);
    /* after many turns what is left is rounding, of any size */
    angle = angle > pi ? pi : angle;
    return angle < -pi ? -pi : angle;
}

/* Sine up to a right angle. */
static inline REAL NAME(sine_near_zero)(REAL y)
{
    REAL z = y * y;
#if DOUBLE
    REAL s = 2.73144476698639934e-15;
    s = FMA(s, z, -7.64397029679857205e-13);
    s = FMA(s, z, 1.60589773124640876e-10);
    s = FMA(s, z, -2.50521076169961829e-8);
    s = FMA(s, z, 2.75573192191632334e-6);
    s = FMA(s, z, -1.98412698412549738e-4);
    s = FMA(s, z, 8.33333333333331587e-3);
    s = FMA(s, z, -1.66666666666666666e-1);
#else
    REAL s = 2.605780446190e-6f;
    s = FMA(s, z, -1.980960280338e-4f);
    s = FMA(s, z, 8.333066244500e-3f);
    s = FMA(s, z, -1.666665955035e-1f);
#endif
    return FMA(y, z * s, y);
}

/* Cosine up to a right angle. */
static inline REAL NAME(cosine_near_zero)(REAL y)
{
    REAL z = y * y;
#if DOUBLE
    REAL c = -1.52186383692435746e-16;
    c = FMA(c, z, 4.77787792524584555e-14);
    c = FMA(c, z, -1.1470712272749466e-11);
    c = FMA(c, z, 2.08767566028754643e-9);
    c = FMA(c, z, -2.75573192215695618e-7);
    c = FMA(c, z, 2.48015873015798521e-5);
    c = FMA(c, z, -1.38888888888888801e-3);
    c = FMA(c, z, 4.16666666666666666e-2);
    return FMA(z * z, c, FMA(-0.5, z, 1));
#else
    REAL c = 2.319438518730e-5f;
    c = FMA(c, z, -1.385592712955e-3f);
    c = FMA(c, z, 4.166398944795e-2f);
    c = FMA(c, z, -4.999993229281e-1f);
    return FMA(c, z, 1);
#endif
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

/* Cosine of an angle in [-pi, pi]. Up to a right angle it is that of cosine_near_zero to the last bit, so that an
 * element moves alike whichever elements share its block. */
static inline REAL NAME(cosine)(REAL angle)
{
    const REAL half_pi = FEW(1.5707963705062866f, 1.570796326794896558);
    const REAL rest = FEW(-4.371138828673793e-08f, 6.123233995736766e-17);
    const REAL beyond = NAME(sine_near_zero)((half_pi - ABS(angle)) + rest), near = NAME(cosine_near_zero)(angle);
    return ABS(angle) > RIGHT_ANGLE ? beyond : near;
}

/* Sine and cosine of an angle up to an eighth of a turn. */
static inline void NAME(both_near_zero)(REAL y, REAL *sine, REAL *cosine)
{
    REAL z = y * y;
#if DOUBLE
    REAL s = 1.59181292948666087e-10;
    s = FMA(s, z, -2.50511318450036244e-8);
    s = FMA(s, z, 2.75573161025524401e-6);
    s = FMA(s, z, -1.98412698367585743e-4);
    s = FMA(s, z, 8.33333333333094849e-3);
    s = FMA(s, z, -1.66666666666666646e-1);
    REAL c = -1.1382632425521718e-11;
    c = FMA(c, z, 2.08761462684031979e-9);
    c = FMA(c, z, -2.75573172717297929e-7);
    c = FMA(c, z, 2.48015872987656879e-5);
    c = FMA(c, z, -1.38888888888873972e-3);
    c = FMA(c, z, 4.16666666666666654e-2);
#else
    REAL s = -1.95878908804123858e-4f;
    s = FMA(s, z, 8.33274827062974948e-3f);
    s = FMA(s, z, -1.66666646623143786e-1f);
    REAL c = 2.45479420850715725e-5f;
    c = FMA(c, z, -1.3888303035894866e-3f);
    c = FMA(c, z, 4.16666646595022068e-2f);
#endif
    *sine = FMA(y, z * s, y);
    *cosine = FMA(z * z, c, FMA((REAL)-0.5, z, 1));
}

/* Sine and cosine of y plus so many quarters of a turn. */
static inline void NAME(both)(REAL y, int32_t quarters, REAL *sine, REAL *cosine)
{
    REAL s, c;
    NAME(both_near_zero)(y, &s, &c);
    REAL first = quarters & 1 ? c : s, second = quarters & 1 ? s : c;
    *sine = quarters & 2 ? -first : first;
    *cosine = (quarters + 1) & 2 ? -second : second;
}

/* Sine and cosine of an angle in [-pi, pi]. */
static inline void NAME(sine_and_cosine)(REAL angle, REAL *sine, REAL *cosine)
{
    REAL n = NAME(rounded)(angle * (REAL)0.6366197723675813430755);
#if DOUBLE
    REAL y = FMA(n, -1.570796326734125614166, angle);
    y = FMA(n, -6.077100506506192601e-11, y);
#else
    REAL y = FMA(n, -1.5703125f, angle); /* n times each of the first two parts of pi/2 is exact */
    y = FMA(n, -4.837512969970703e-4f, y);
    y = FMA(n, -7.549789948768648e-8f, y);
#endif
    NAME(both)(y, (int32_t)n, sine, cosine);
}

/* -2 log(x 2^-k) of a positive normal number x. */
static inline REAL NAME(twice_minus_log)(REAL x, int k)
{
    /* the significand between sqrt(1/2) and sqrt(2), and the exponent that goes with it, plus an offset */
    const BITS root = FEW(0x3f3504f3u, 0x3fe6a09e667f3bcdull), one = FEW(0x800000u, 0x10000000000000ull);
    BITS parts = NAME(bits_of)(x) - root + FEW(128, 1024) * one;
    REAL exponent = (REAL)((int32_t)(parts / one) - (FEW(128, 1024) + k));
    REAL f = NAME(of_bits)(parts % one + root) - 1, z;
#if DOUBLE
    /* log(1 + f) = 2 s + s^3 t(s^2) = f - s (f - s^2 t) with s = f / (2 + f) */
    REAL s = f / (2 + f), t = 0.146164496850434074, rest;
    z = s * s;
    t = FMA(t, z, 0.153317216005560411);
    t = FMA(t, z, 0.181828891252617221);
    t = FMA(t, z, 0.222222111347950799);
    t = FMA(t, z, 0.285714286259754849);
    t = FMA(t, z, 0.399999999998995045);
    t = FMA(t, z, 0.666666666666666969);
    /* log 2 in two parts, of which the first times the exponent is exact */
    rest = FMA(exponent, 1.90821492927058770002e-10, s * FMA(z, t, -f));
    return -2 * FMA(exponent, 6.93147180369123816490e-01, f + rest);
#else
    /* -2 log(1 + f) = -2 f + f^2 (1 + f t(f)) */
    REAL t = 0.158054875447868819f;
    t = FMA(t, f, -0.252446396984567528f);
    t = FMA(t, f, 0.259963675273030582f);
    t = FMA(t, f, -0.284289918478959256f);
    t = FMA(t, f, 0.33282562926212786f);
    t = FMA(t, f, -0.400020901883213606f);
    t = FMA(t, f, 0.500006128451395892f);
    t = FMA(t, f, -0.66666661456381353f);
    z = f * f;
    return FMA(exponent, -1.386294361119890619f, FMA(z, FMA(t, f, 1), -(f + f)));
#endif
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
    a = FMA(a, z, -0.0345705619814277469);
    a = FMA(a, z, 0.0455159322062654917);
    a = FMA(a, z, -0.0523045427065024452);
    a = FMA(a, z, 0.0587892899783477513);
    a = FMA(a, z, -0.0666642488573825533);
    a = FMA(a, z, 0.076922963750321424);
    a = FMA(a, z, -0.0909090875350087684);
    a = FMA(a, z, 0.111111111051554466);
    a = FMA(a, z, -0.142857142856598276);
    a = FMA(a, z, 0.199999999999998045);
    a = FMA(a, z, -0.333333333333333332);
#else
    REAL a = -0.0645192820812174876f;
    a = FMA(a, z, 0.10743731490791083f);
    a = FMA(a, z, -0.142639555979846392f);
    a = FMA(a, z, 0.199995404836489634f);
    a = FMA(a, z, -0.333333317611685199f);
#endif
    a = FMA(t, z * a, t);
    a = upper ? (REAL)0.785398163397448309616 + a : a;
    a = ay > ax ? (REAL)1.570796326794896619231 - a : a;
    a = x < 0 ? (REAL)3.141592653589793238463 - a : a;
    return y < 0 ? -a : a;
}
