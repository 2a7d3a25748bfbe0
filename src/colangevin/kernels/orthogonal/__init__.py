r"""Orthogonality steps on the GPU: every matrix of a model in each launch, nothing decided on the host.

Matrices are worked on as :math:`X = Q^T \in R^{s \times r}`, :math:`X X^T = I`: the layout of a wide weight.
A step with momentum P and drift a is

1. :math:`K = X P^T`, with its symmetric part S and its skew part A, and :math:`G = P P^T`;
2. with the projected momentum :math:`\hat P = P - S X` the target :math:`\bar X = X + a \hat P` has
   :math:`\bar X \bar X^T = I + a^2 \hat P \hat P^T` and :math:`X \bar X^T = I + a A`; since :math:`\hat P
   \hat P^T = G + S D + (S D)^T` with :math:`D = S/2 - K`, the projection itself is never computed;
3. quasi-Newton in Gram form for M, :math:`X' = \bar X - M X = X + a P - U X`, :math:`U = M + a S`; where
   that does not converge, Newton-Schulz for :math:`Z = (\bar X \bar X^T)^{-1/2}`, :math:`X' = Z \bar X =
   (Z - a Z S) X + a Z P`; each matrix stops for itself;
4. :math:`E = X' X'^T - I`, and S' of the momentum that arrives at X', :math:`P - U X / a`: in Gram form too,
   :math:`S' = S + a G - U/a + W + W^T` with :math:`W = U (U/2a - K)`;
5. :math:`X'' = (I - \frac12 E + \frac38 E^2) X'`, which turns an error e into :math:`\frac5{16} e^3`, and
   the momentum's projection there.

Only K, G, U X, E and what 5 multiplies with X' are products of long matrices; all others are s x s.

A matrix for which all of this fails (a step thousands of times too long) stays where it was and loses its
momentum. The overdamped step has no momentum and enters at 3 with the step itself for aP.

Products use the matrix units at the rate of 16-bit numbers and at float32's precision: a number is the sum of
two bfloat16, high and low, and of the four products of two such sums the smallest is left out, which is 2^-17
of the whole. X', of which no entry is larger than 1, is the sum of two float16, times a number, which is as
good as float32; so is what it is multiplied by.

Workspaces are padded with zeros to whole tiles, so that nothing there needs a mask. Every kernel takes the
same table of matrices and a list of the tiles its programs work on.
"""
