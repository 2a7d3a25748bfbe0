r"""Orthogonality steps on the GPU: every launch takes all matrices of a model, and the host decides nothing.

A matrix is worked on as :math:`X = Q^T \in R^{s \times r}` with :math:`X X^T = I`, the layout of a wide
weight. A drift of length a along the momentum P has five parts.

1. Inputs: :math:`K = X P^T`, its symmetric part S, its skew part A, and :math:`G = P P^T`.
2. Target: the projected momentum is :math:`\hat P = P - S X`, the target :math:`\bar X = X + a \hat P`. Then
   :math:`\bar X \bar X^T = I + a^2 \hat P \hat P^T` and :math:`B = X \bar X^T = I + a A`. The projection is
   never computed: :math:`\hat P \hat P^T = G + S D + (S D)^T` with :math:`D = S/2 - K`.
3. Landing: a quasi-Newton iteration on s x s matrices finds M for which :math:`X' = \bar X - M X` has
   orthonormal rows. :math:`X' = X + a P - U X` with :math:`U = M + a S`. Each matrix stops for itself. Where
   the iteration fails, Newton-Schulz finds :math:`Z = (\bar X \bar X^T)^{-1/2}`, and
   :math:`X' = Z \bar X = (Z - a Z S) X + a Z P`.
4. Arrival: the momentum at X' is :math:`P - U X / a`. The symmetric part of X' times its transpose is
   :math:`S' = S + a G - U/a + W + W^T` with :math:`W = U (U/2a - K)`, from s x s matrices too.
5. Correction: with :math:`E = X' X'^T - I`, :math:`X'' = (I - \frac12 E + \frac38 E^2) X'` turns an error e
   into :math:`\frac5{16} e^3`. The momentum is projected at X''.

Products with s x r matrices are K, G, U X, E and those of X' in 5. All others are s x s.

The overdamped step takes :math:`\bar X - X` in place of P, with a = 1 and without the projection of 2.

A matrix for which all of this fails, in a step thousands of times too long, keeps its X and gets P = 0.

The matrix units multiply 16-bit numbers. For float32's precision a number is the sum of two bfloat16, high
and low. Of the four products of two such sums the one of both low parts is left out, which is 2^-17 of the
whole. No entry of X' is larger than 1: times a constant it is the sum of two float16, which is as good as
float32. What multiplies X' is stored in the same way.

Large matrices take the same five parts with other products: see ``large_squares``, ``large_bands`` and
:mod:`colangevin.step.fused.large_frames`.

Every kernel takes the table of matrices and a table of the tiles that its programs work on. Matrices between
two kernels are in workspaces, which are padded with zeros to whole tiles, so that tiles there need no mask.
"""
