"""Error model: how far the outputs of a right kernel lie from the float64 reference, in standard deviations.

docs/explanation/error-model.md derives every formula. A right kernel rounds P and O to bf16, so each error is a sum of
many small independent ones, whose sizes the reference knows. For any direction in the space of an output, the model
gives the variance of the error along it, and an allowance for errors of fp32 arithmetic that all have one sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stages.case import Case
from stages.expected import Seen, seen
from stages.inputs import Inputs
from stages.metrics import Array

FP32 = 2.0**-24  # relative error of one rounding to fp32
P_VARIANCE = 2.0**-16 / 3  # of the relative error of rounding to bf16, uniform within +-2^-8, where the mantissa is 1
LAG = 8 * np.log(2)  # a kernel updates its reference maximum at the latest when a logit exceeds it by 2^8
APPROXIMATION = 2.0**-22  # relative error of ex2.approx and lg2.approx (PTX ISA)
CURVATURE = 2.0**-17  # relative mean error of rounding to bf16: the density of numbers is not constant within a step
COLUMNS = 256  # of an output that one MMA computes at most; P may be rounded anew for others
STEP = 16  # products that the tensor core adds at once
MERGES = 8  # additions and products in fp32 that a row's sums go through besides: rescales, splits, 1/l
SPREAD = 8.5  # standard deviations within which lse and m lie
ITERATIONS = 8  # of the conjugate gradients that find a row's direction
HEAVY = 4  # keys of a row that may decide its mantissas
DOMINATED = 0.9  # weight of a key from which on O lies near its value, whose elements are numbers of bf16
HALF = 2.0**-8  # distance of a key's weight from 1/2 within which P may make O a mean of two numbers of bf16
FLUSHED = 2.0**-120  # smaller numbers may be flushed to zero, or lose digits
TINY = 1e-300


@dataclass(frozen=True)
class TensorCore:
    """The sums of a tensor core. truncation: mean error of a step toward zero, in units of 2^-24 of the sum."""

    name: str
    truncation: float


#: The emulated device adds products in fp32, rounded to nearest.
ROUNDS = TensorCore("rounds", 0.0)
#: wgmma of an H200 truncates the terms to 25 fractional bits and the sum to 23 (docs/explanation/silicon.md): half a
#: step on average for the sum, a quarter for the terms. Evidence: over 97 seeds of every case an H200's lse was at most
#: 5.0e-4 off where Q is multiplied by 128; the model's mean is 7.5e-4 there.
TRUNCATES = TensorCore("truncates", 1.25)


def tensor_core(gpu: bool) -> TensorCore:
    """Return the sums of a GPU's tensor core, or those of the emulated device."""
    return TRUNCATES if gpu else ROUNDS


@dataclass(frozen=True)
class Noise:
    """The sizes of the errors of a right kernel for query rows that see the same keys.

    weight [rows, keys]: what each key contributes to the output. p [rows, keys]: variance of the relative error of each
    weight by rounding P. logits [rows, keys]: the same by errors of the logits, which change the sum of weights too.
    bias [rows, keys]: the most that a weight errs because logits err toward zero, with its sign. rounding [rows,
    head_dim]: variance of the output's own rounding. drift [rows, head_dim]: the most that its sums err toward zero.
    allowed [rows]: relative error of a whole row that fp32 arithmetic may make besides. known, possible [rows,
    head_dim]: errors of the output's rounding that every kernel makes, or some make. ties [rows, head_dim]: elements
    whose known error may have either sign, because they lie in the middle of two numbers of bf16.
    """

    weight: Array
    p: Array
    logits: Array
    bias: Array
    rounding: Array
    drift: Array
    allowed: Array
    known: Array
    possible: Array
    ties: NDArray[np.bool_]

    def unknown(self, error: Array) -> Array:
        """Return what is left of an output's error without the known one."""
        return error - np.where(self.ties & (error * self.known < 0), -self.known, self.known)


class OutputModel:
    """The distribution of the error of one output, [rows, head_dim], for query rows that see the same keys.

    An error is the sum of a random part, whose covariance is known, and of a part that is bounded, whatever its sign.
    """

    def __init__(self, y: Array, values: Array, noise: Noise) -> None:
        """y: the reference. values: V [keys, head_dim]."""
        self.y, self.values, self.noise = y, values, noise
        p, logits, rounding = noise.weight**2 * noise.p, noise.weight**2 * noise.logits, noise.rounding
        both, squares = p + logits, values**2
        variance = both @ squares - 2 * y * (logits @ values) + y**2 * _sum(logits) + rounding
        self.sigma = np.sqrt(np.maximum(variance, (FP32 * y) ** 2 + FLUSHED**2))
        blocks = [slice(first, first + COLUMNS) for first in range(0, y.shape[1], COLUMNS)]
        parts, middles = _by_block(values, values, blocks), _by_block(y, values, blocks)
        gram, on_middle = parts.sum(0), middles.sum(0)
        key_square = np.maximum(np.diag(gram) - 2 * on_middle + _sum(y**2), 0.0)
        # 1. The bounded part of an element, and of a row's length. A bias that all keys share does not move the output.
        top = np.argmax(noise.weight, 1)[:, None]
        apart = noise.weight * (np.abs(noise.bias) + np.abs(np.take_along_axis(noise.bias, top, 1)))
        np.put_along_axis(apart, top, 0.0, 1)
        shared = noise.allowed + (1 - noise.weight.sum(1)) * np.abs(np.take_along_axis(noise.bias, top, 1)[:, 0])
        self.reach = apart @ np.abs(values) + (_sum(apart) + shared[:, None]) * np.abs(y) + noise.drift
        self.length = shared * np.linalg.norm(y, axis=1) + np.sum(apart * np.sqrt(key_square), 1)
        self.length += np.linalg.norm(noise.drift, axis=1)
        # 2. The direction in which a common factor of a row shows best.
        self.row = _sharpest(y, both + apart**2, values, rounding + noise.drift**2, blocks)
        alongs, own = _by_block(self.row, values, blocks), _sum(self.row * y)
        along, apiece = alongs.sum(0), np.sum(alongs**2, 0)
        self.response = own[:, 0]
        self.row_variance = np.sum(logits * (along - own) ** 2, 1) + np.sum(self.row**2 * rounding, 1)
        self.row_variance += np.sum(p * np.maximum(along**2, apiece), 1)  # roundings of P are the same, or independent
        self.row_variance += (FP32 * self.response) ** 2
        biases = noise.weight * noise.bias * (along - own)
        either = noise.allowed * np.abs(self.response) + np.sum(np.abs(self.row) * noise.drift, 1)
        possible = np.sum(self.row * noise.possible, 1)
        self.row_low = np.minimum(biases, 0).sum(1) + np.minimum(possible, 0) - either
        self.row_high = np.maximum(biases, 0).sum(1) + np.maximum(possible, 0) + either
        # 3. The directions v - y, in which the weights of keys move the output.
        key_variance = rounding @ squares.T - 2 * (rounding * y) @ values.T + _sum(rounding * y**2)
        for part, middle in zip(parts, middles, strict=True):
            key_variance += len(blocks) * (both @ part**2 - 2 * (both * middle) @ part + _sum(both * middle**2))
        key_variance = np.maximum(key_variance, FP32**2 * _sum(y**2) * key_square)
        moves = (key_square > FP32 * np.diag(gram)) & (key_variance > 0)  # not if the value is y itself
        distance = np.sqrt(np.where(moves, key_square, 0.0))
        self.key_sigma = np.sqrt(np.where(moves, key_variance, np.inf))
        self.key_possible = self._on_keys(noise.possible) if noise.possible.any() else np.zeros(1)
        # The effect of a key's weight on the error along its own direction. Only its ratios between rows count.
        # They are taken before anything can underflow: weights may be 1e-200 in all rows.
        effect = noise.weight * distance**2
        effect /= np.maximum(effect.max(0), TINY)
        self.gain = effect / self.key_sigma**2
        self.key_allowed = self.length[:, None] * distance
        self.together = np.sum(self.key_allowed * self.gain, 0), np.sqrt(np.sum(self.gain * effect, 0))
        # 4. The expectation of the squared length of the random part, and its degrees of freedom.
        self.square = np.sum(variance, 1)
        of_product = np.sum(both * (both @ gram**2), 1) + np.sum(2 * rounding * (both @ squares) + rounding**2, 1)
        self.freedom = self.square / np.maximum(np.sqrt(of_product), TINY)

    def z(self, error: Array) -> float:
        """Return the largest error of an element in standard deviations."""
        return _largest(_excess(self.noise.unknown(error), self.reach, self.sigma))

    def squares(self, error: Array) -> Array:
        """Return the squared length of each row's error beyond the bounded part, in units of its expectation."""
        own = np.maximum(np.linalg.norm(self.noise.unknown(error), axis=1) - self.length, 0.0) ** 2
        ratio: Array = np.divide(own, np.maximum(self.square, TINY), out=np.zeros_like(own), where=own > 0)
        return ratio

    def rows(self, error: Array) -> Rows:
        """Return the errors of the rows along their directions."""
        own = np.sum(self.row * (self.noise.unknown(error)), 1)
        return Rows(own, self.row_low, self.row_high, self.response, self.row_variance)

    def keys(self, error: Array) -> float:
        """Return the largest error along the direction of a key, of one row or of all rows together, in sigma."""
        along = self._on_keys(self.noise.unknown(error))
        along = along - np.clip(along, np.minimum(self.key_possible, 0), np.maximum(self.key_possible, 0))
        apart = _largest(_excess(along, self.key_allowed, self.key_sigma))
        return max(apart, _largest(_excess(np.sum(along * self.gain, 0), *self.together)))

    def _on_keys(self, error: Array) -> Array:
        along: Array = error @ self.values.T - _sum(error * self.y)
        return along


@dataclass(frozen=True)
class Rows:
    """Errors of rows along a direction each, the least and most that is allowed, responses to a factor, variances."""

    error: Array
    low: Array
    high: Array
    response: Array
    variance: Array

    @staticmethod
    def of(parts: list[Rows]) -> Rows:
        """Join rows of several groups."""
        names = ("error", "low", "high", "response", "variance")
        return Rows(*(np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]) for name in names))

    @property
    def largest(self) -> float:
        """The largest error of a row in standard deviations."""
        beyond = self.error - np.clip(self.error, self.low, self.high)
        return _largest(_excess(beyond, np.zeros(1), np.sqrt(self.variance)))

    @property
    def factor(self) -> float:
        """The error of a factor common to all rows in standard deviations, with its sign."""
        gain = np.divide(self.response, self.variance, out=np.zeros_like(self.variance), where=self.variance > 0)
        low, high = self.low * gain, self.high * gain
        total = np.sum(self.error * gain)
        total -= np.clip(total, np.sum(np.minimum(low, high)), np.sum(np.maximum(low, high)))
        return float(total / max(np.sqrt(np.sum(gain**2 * self.variance)), TINY))


@dataclass(frozen=True)
class Group:
    """The model of query rows that see the same keys.

    rows: their numbers among the rows of the outputs. lse: the largest error of lse; above, below: those of m, [rows].
    """

    rows: NDArray[np.intp]
    outputs: dict[str, OutputModel]
    lse: Array
    above: Array
    below: Array


class ErrorModel:
    """The error model of a case and its inputs."""

    def __init__(self, case: Case, inputs: Inputs, core: TensorCore = ROUNDS) -> None:
        self.core = core
        self.groups = [_group(case, each, core) for each in seen(case, inputs)]

    def figures(self, tensor: str, got: Array, want: Array) -> dict[str, float]:
        """Return the figures of one output by name. Elements that are not finite make them infinite."""
        if tensor in ("lse", "m"):
            return {"limit": self._limit(tensor, got, want)}
        error = got - want
        if not np.isfinite(error).all():
            return dict.fromkeys(("z", "z_square", "z_factor", "z_row", "z_key"), np.inf)
        empty = np.ones(len(want), bool)
        z, z_key, rows = 0.0, 0.0, []
        squares, freedom = np.zeros(len(want)), np.zeros(len(want))
        for group in self.groups:
            model, own = group.outputs[tensor], error[group.rows]
            z, z_key = max(z, model.z(own)), max(z_key, model.keys(own))
            rows.append(model.rows(own))
            squares[group.rows], freedom[group.rows] = model.squares(own), model.freedom
            empty[group.rows] = False
        if np.any(error[empty]):  # rows that see no key are exact
            z = np.inf
        joined = Rows.of(rows)
        found = {"z": z, "z_square": energy(squares, freedom), "z_factor": joined.factor, "z_row": joined.largest}
        return found | {"z_key": z_key}

    def _limit(self, tensor: str, got: Array, want: Array) -> float:
        """Return the largest error of a row of lse or m in units of its bound."""
        worst = 0.0
        for group in self.groups:
            error = got[group.rows] - want[group.rows]
            if not np.isfinite(error).all():
                return np.inf
            above, below = (group.lse, group.lse) if tensor == "lse" else (group.above, group.below)
            worst = max(worst, float(np.max(np.where(error > 0, error / above, -error / below))))
        return worst


def energy(squares: Array, freedom: Array) -> float:
    """Return by how many standard deviations squared errors exceed their expectation: sqrt(n (x - 1 - ln x)).

    x is the mean of `squares` weighted by `freedom`, whose sum is n. A mean above x has at most the probability
    exp(-n/2 (x - 1 - ln x)).
    """
    n = float(np.sum(freedom))
    x = float(np.sum(squares * freedom)) / n if n else 0.0
    return float(np.sqrt(n * (x - 1 - np.log(x)))) if x > 1 else 0.0


def rounded(o: Array) -> Array:
    """Return numbers rounded to bf16."""
    nearest: Array = torch.from_numpy(o).bfloat16().double().numpy()
    return nearest


def _group(case: Case, rows: Seen, core: TensorCore) -> Group:
    scale = case.head_dim**-0.5 if case.scale is None else case.scale
    steps = -(-case.head_dim // STEP)
    # 1. Softmax.
    s = scale * (rows.q @ rows.keys.T)
    m = s.max(1, keepdims=True)
    p = np.exp(s - m)
    total = _sum(p)
    with np.errstate(over="ignore"):
        whole = total + np.exp(rows.sink[:, None] - m)
    share, top, log_sum = p / total, np.abs(m[:, 0]), np.log(total[:, 0])
    # 2. Errors of logits: each accumulation rounds or truncates a partial sum of about half their size.
    size = np.abs(s) + abs(scale) * np.sqrt(rows.q**2 @ (rows.keys**2).T)
    spread, bias = FP32 * np.sqrt(steps) / 3 * size, core.truncation * FP32 * steps / 2 * size
    toward_zero = np.sum(share * bias, 1)
    # 3. Rounding of P. It is exact for the largest logit of a single KV tile, or one that exceeds all others by more
    #    than the maximum may lag.
    near = 1e-9 * (1 + np.abs(m))
    largest = s >= m - near
    alone = largest & (m - np.where(s < m - near, s, -np.inf).max(1, keepdims=True) > 1.01 * LAG)
    halves = np.abs(share * rows.repeats - 0.5) < HALF
    exact = largest & ~halves if case.one_tile else alone
    residual = (FP32 * (16 + top / np.log(2)))[:, None] ** 2
    of_p = np.where(exact, residual, P_VARIANCE * _mantissas(s, p)) * rows.repeats
    # 4. Errors of fp32 arithmetic: exponentials, sums, maxima, 1/l; and those of the sums of P V.
    n = len(rows.keys)
    sums = FP32 * np.sqrt(n) / 6
    fp32 = FP32 * (8 + 5 * top) + 2 * APPROXIMATION + SPREAD * sums
    additions = -(-n // STEP) + MERGES

    def model(
        weight: Array, stored: Array, allowed: Array, known: Array, possible: Array, ties: NDArray[np.bool_]
    ) -> OutputModel:
        y = weight @ rows.values
        partial = np.abs(y) + np.sqrt(weight**2 @ rows.values**2)
        rounding, drift = stored + additions / 3 * (FP32 * partial) ** 2, core.truncation * additions * FP32 * partial
        noise = Noise(weight, of_p, spread**2, -np.sign(s) * bias, rounding, drift, allowed, known, possible, ties)
        return OutputModel(y, rows.values, noise)

    none = np.zeros((len(s), rows.values.shape[1]))
    outputs = {}
    if "U" in case.tensors:
        outputs["U"] = model(share, none, CURVATURE + fp32, none, none, none > 0)
    # 5. Rounding of O. Where one key has nearly all weight, it is not random: O is nearly a number of bf16.
    weight = p / whole
    o = weight @ rows.values
    half = np.where(o == 0, 0.0, np.exp2(np.floor(np.log2(np.maximum(np.abs(o), TINY))) - 8))  # of a step
    nearest, sure = rounded(o) - o, alone.any(1, keepdims=True)
    known = np.where(sure, nearest, 0.0)
    possible = np.where(~sure & (weight.max(1, keepdims=True) > DOMINATED), nearest, 0.0)
    of_sink = np.where(np.isfinite(rows.sink), np.abs(rows.sink), 0.0) * (1 - total / whole)[:, 0]
    reach = bias + SPREAD * spread + 5 * FP32 * np.abs(s)
    #    The weight of such a key is 1, or errs with its logit if there is a sink. At 7/8 one element in eight is a tie.
    apart = (1 - total / whole) * np.take_along_axis(reach, np.argmax(s, 1)[:, None], 1) + 4 * FP32 * of_sink[:, None]
    error = 8 * FP32 + 2 * APPROXIMATION + core.truncation * additions * FP32 + apart
    ties = sure & (half - np.abs(nearest) <= error * np.abs(o))
    outputs["O"] = model(weight, half**2 / 3, 2 * CURVATURE + fp32 + 4 * FP32 * of_sink, known, possible, ties)
    # 6. lse and m.
    random = np.sqrt(np.sum(share**2 * spread**2, 1) + sums**2)
    lse = (3 + 2 * log_sum) * APPROXIMATION + FP32 * (5 * top + np.abs(m[:, 0] + log_sum)) + toward_zero
    lse += FP32 * np.sum(share * np.abs(s), 1) + SPREAD * random
    above, below = (s + reach).max(1) - m[:, 0], m[:, 0] - (s - reach).max(1)
    return Group(rows.rows, outputs, lse, above + FP32, below + FP32 + (0.0 if case.exact_maxima else LAG))


def _sharpest(y: Array, variance: Array, values: Array, rounding: Array, blocks: list[slice]) -> Array:
    """Return a direction for each row in which a common factor shows best: nearly C^-1 y, C the error's covariance.

    Any direction is valid, as it depends on the reference alone. A few steps of conjugate gradients suffice.
    """
    ridge = rounding + (2.0**-20) ** 2 * np.mean(y**2, 1, keepdims=True) + TINY
    x, r = np.zeros_like(y), y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), TINY)
    direction, size = r.copy(), _sum(r**2)
    for _ in range(ITERATIONS):
        alongs = _by_block(direction, values, blocks)
        along = alongs.sum(0)
        image = ridge * direction
        for b, each in zip(blocks, alongs, strict=True):
            image[:, b] += (variance / 2 * (along + each)) @ values[:, b]
        step = size / np.maximum(_sum(direction * image), TINY)
        x, r = x + step * direction, r - step * image
        size, before = _sum(r**2), size
        direction = r + size / np.maximum(before, TINY) * direction
    unit: Array = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), TINY)
    return unit


def _by_block(x: Array, values: Array, blocks: list[slice]) -> Array:
    """Return the products of x and the values over the columns of each block, [blocks, rows, keys]."""
    return np.array([x[:, b] @ values[:, b].T for b in blocks])


def _mantissas(s: Array, p: Array) -> Array:
    """Return the largest mean of 1/f^2, f in [1, 2) the mantissas of P, that any reference maximum gives, [rows, 1].

    A row's mantissas move together with its maximum. The mean is largest if that of a heavy key is 1.
    """
    log2 = s / np.log(2)
    heavy = np.argpartition(s, -min(HEAVY, s.shape[1]), 1)[:, -HEAVY:]
    shifts = np.take_along_axis(log2, heavy, 1).T[..., None]
    sums = (_sum(p**2 * np.exp2(-2 * np.mod(log2 - shift, 1))) for shift in shifts)
    largest: Array = np.maximum.reduce(list(sums)) / _sum(p**2)
    return largest


def _sum(x: Array) -> Array:
    """Return the sums of rows, [rows, 1]."""
    sums: Array = np.sum(x, 1, keepdims=True)
    return sums


def _excess(error: Array, allowed: Array, sigma: Array) -> Array:
    """Return by how many standard deviations errors exceed the allowed ones, with their sign."""
    over = np.sign(error) * np.maximum(np.abs(error) - allowed, 0.0)
    ratio: Array = np.divide(over, np.maximum(sigma, TINY), out=np.zeros_like(over), where=over != 0)
    return ratio


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0))
