"""Sine, cosine and their inverses in float32, for angles of moderate size.

Most polynomials are the single-precision ones of the Cephes library (Moshier 1992), good to about an ulp.
They cost a fraction of the general routines, which also reduce arguments of any size.
"""

import triton
import triton.language as tl

__all__ = ["asin", "atan2", "sincos", "sine", "wrap"]


@triton.jit
def _nearest(x):
    """The whole number nearest to x, for abs(x) < 2^22: as float32, and in the last bits of an int32."""
    # A float32 near 1.5 2^23 has no bits for a fraction, so the addition rounds. The GPU's instructions for
    # rounding and conversion have a lower rate than its additions.
    shifted = x + 12582912.0
    return shifted - 12582912.0, shifted.to(tl.int32, bitcast=True)


@triton.jit
def sincos(x):
    """Sine and cosine of an angle of moderate size, by reduction to [-pi/4, pi/4]."""
    n, quadrant = _nearest(x * 0.6366197723675814)
    # pi/2 in three parts (Cody and Waite): n times the first is exact, and so is the difference
    y = x - n * 1.5703125
    y = y - n * 4.837512969970703e-4
    y = y - n * 7.549789948768648e-8
    z = y * y
    s = y + y * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4))
    c = z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))
    c = 1.0 - 0.5 * z + c
    odd = (quadrant & 1) != 0
    sine = tl.where(odd, c, s)
    cosine = tl.where(odd, s, c)
    sine = tl.where((quadrant & 2) != 0, -sine, sine)
    return sine, tl.where(((quadrant + 1) & 2) != 0, -cosine, cosine)


@triton.jit
def sine(x):
    """Sine alone, by reduction to [-pi/2, pi/2]. Half the price of ``sincos``, good to two ulps."""
    n, half_turns = _nearest(x * 0.3183098861837907)
    y = x - n * 3.140625
    y = y - n * 9.675025939941406e-4
    y = y - n * 1.5099579897537296e-7
    z = y * y
    # the polynomial of least relative error on the interval: 6e-9
    p = -1.980960280338e-4 + z * 2.605780446190e-6
    s = y + y * z * (-1.666665955035e-1 + z * (8.333066244500e-3 + z * p))
    return tl.where((half_turns & 1) != 0, -s, s)


@triton.jit
def asin(x):
    """Inverse sine on [-1, 1]."""
    a = tl.abs(x)
    steep = a > 0.5
    z = tl.where(steep, 0.5 * (1.0 - a), a * a)
    t = tl.where(steep, tl.sqrt(z), a)
    p = 4.2163199048e-2
    p = p * z + 2.4181311049e-2
    p = p * z + 4.5470025998e-2
    p = p * z + 7.4953002686e-2
    p = p * z + 1.6666752422e-1
    p = t + t * z * p
    p = tl.where(steep, 1.5707963267948966 - 2.0 * p, p)
    return tl.where(x < 0, -p, p)


@triton.jit
def atan2(y, x):
    """Angle of (x, y); 0 at the origin."""
    ay, ax = tl.abs(y), tl.abs(x)
    larger = tl.maximum(ax, ay)
    t = tl.minimum(ax, ay) / tl.where(larger == 0, 1.0, larger)
    upper = t > 0.41421356237309503
    t = tl.where(upper, (t - 1.0) / (t + 1.0), t)
    z = t * t
    p = 8.05374449538e-2
    p = p * z - 1.38776856032e-1
    p = p * z + 1.99777106478e-1
    p = p * z - 3.33329491539e-1
    p = t + t * z * p
    p = tl.where(upper, p + 0.7853981633974483, p)
    p = tl.where(ay > ax, 1.5707963267948966 - p, p)
    p = tl.where(x < 0, 3.141592653589793 - p, p)
    return tl.where(y < 0, -p, p)


@triton.jit
def wrap(angle):
    """An angle less whole turns, in [-pi, pi]. From beyond 2^22 turns the result is only smaller."""
    turns, _ = _nearest(angle * 0.15915494309189535)
    return angle - 6.283185307179586 * turns
