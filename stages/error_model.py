"""Error model: how far the outputs of a right kernel lie from the float64 reference, in standard deviations.

docs/explanation/error-model.md derives every formula. A right kernel rounds P and O to bf16, so each error is a sum of
many small independent ones, whose sizes the reference knows. For any direction in the space of an output, the model
gives the variance of the error along it, and an allowance for errors of fp32 arithmetic that all have one sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from stages.case import Case
from stages.expected import Seen, seen
from stages.inputs import Inputs
from stages.metrics import Array

FP32 = 2.0**-24  # relative error of one rounding to fp32
P_VARIANCE = 2.0**-16 / 3  # of the relative error of rounding to bf16, uniform within +-2^-8, where the mantissa is 1
LAG = 8 * np.log(2)  # a kernel updates its reference maximum at the latest when a logit exceeds it by 2^8
APPROXIMATION = 2.0**-22  # relative error of ex2.approx and lg2.approx (PTX ISA)
CURVATURE = 2.0**-17  # relative mean error of rounding to bf16: the density of numbers is not constant within a step
STEP = 16  # products that the tensor core adds at once
SPREAD = 8.5  # standard deviations within which lse and m lie
ITERATIONS = 4  # of the conjugate gradients that find a row's direction
HEAVY = 4  # keys of a row that may decide its mantissas
DOMINATED = 0.9  # weight of a key from which on O lies near its value, whose elements are numbers of bf16
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
    weight by rounding P. logits [rows, keys]: the same by errors of the logits. rounding [rows, head_dim]: variance of
    the output's own rounding. allowed [rows]: relative error of a whole row that fp32 arithmetic may make besides.
    normalised: the output is divided by the sum of all weights, so a logit's error moves it toward the key's value.
    known, possible [rows, head_dim]: errors of the output's rounding that every kernel makes, or some make.
    """

    weight: Array
    p: Array
    logits: Array
    rounding: Array
    allowed: Array
    normalised: bool
    known: Array
    possible: Array


class OutputModel:
    """The distribution of the error of one output, [rows, head_dim], for query rows that see the same keys."""

    def __init__(self, y: Array, values: Array, noise: Noise) -> None:
        """y: the reference. values: V [keys, head_dim]."""
        self.y, self.values, self.noise = y, values, noise
        p, logits = noise.weight**2 * noise.p, noise.weight**2 * noise.logits
        if not noise.normalised:
            p, logits = p + logits, np.zeros_like(logits)
        both, squares, rounding = p + logits, values**2, noise.rounding
        variance = both @ squares - 2 * y * (logits @ values) + y**2 * _sum(logits) + rounding
        self.sigma = np.sqrt(np.maximum(variance, (FP32 * y) ** 2 + FLUSHED**2))
        # 1. The direction in which a common factor of a row shows best.
        self.row = _sharpest(y, both, values, rounding)
        along, own = self.row @ values.T, _sum(self.row * y)
        self.response = own[:, 0]
        self.row_variance = np.sum(p * along**2 + logits * (along - own) ** 2, 1) + np.sum(self.row**2 * rounding, 1)
        self.row_variance += (FP32 * self.response) ** 2
        # 2. The directions in which the weights of keys move the output: v - y if it is normalised, else v.
        gram, middle = values @ values.T, y if noise.normalised else np.zeros_like(y)
        on_middle, on_gram = middle @ values.T, both @ gram**2
        key_square = np.diag(gram) - 2 * on_middle + _sum(middle**2)
        key_variance = on_gram - 2 * (both * on_middle) @ gram + _sum(both * on_middle**2)
        key_variance += rounding @ squares.T - 2 * (rounding * middle) @ values.T + _sum(rounding * middle**2)
        key_variance = np.maximum(key_variance, FP32**2 * _sum(y**2) * np.maximum(key_square, 0))
        moves = (key_square > FP32 * np.diag(gram)) & (key_variance > 0)  # not if the value is y itself
        self.key_square = np.where(moves, key_square, 0.0)
        self.key_variance = np.where(moves, key_variance, np.inf)
        # 3. The expectation of the squared length of the error, and its degrees of freedom.
        self.square = np.sum(variance, 1) + noise.allowed**2 * np.sum(y**2, 1)
        of_product = np.sum(both * on_gram, 1) + np.sum(2 * rounding * (both @ squares) + rounding**2, 1)
        self.freedom = self.square / np.maximum(np.sqrt(of_product), TINY)

    def z(self, error: Array) -> float:
        """Return the largest error of an element in standard deviations."""
        return _largest(_excess(error - self.noise.known, self.noise.allowed[:, None] * np.abs(self.y), self.sigma))

    def squares(self, error: Array) -> Array:
        """Return the squared length of each row's error, in units of its expectation."""
        own = np.sum((error - self.noise.known) ** 2, 1)
        return np.divide(own, np.maximum(self.square, TINY), out=np.zeros_like(own), where=own > 0)

    def rows(self, error: Array) -> Rows:
        """Return the errors of the rows along their directions."""
        allowed, possible = self.noise.allowed * np.abs(self.response), np.sum(self.row * self.noise.possible, 1)
        return Rows(
            np.sum(self.row * (error - self.noise.known), 1),
            np.minimum(possible, 0) - allowed,
            np.maximum(possible, 0) + allowed,
            self.response,
            self.row_variance,
        )

    def keys(self, error: Array) -> float:
        """Return the largest error along the direction of a key, of one row or of all rows together, in sigma."""
        along, possible = self._on_keys(error - self.noise.known), self._on_keys(self.noise.possible)
        along = along - np.clip(along, np.minimum(possible, 0), np.maximum(possible, 0))
        allowed = self.noise.allowed[:, None] * np.linalg.norm(self.y, axis=1, keepdims=True) * np.sqrt(self.key_square)
        effect = self.noise.weight * self.key_square  # of a key's weight on the error along its own direction
        gain = effect / self.key_variance
        together = _excess(np.sum(along * gain, 0), np.sum(allowed * gain, 0), np.sqrt(np.sum(gain * effect, 0)))
        return max(_largest(_excess(along, allowed, np.sqrt(self.key_variance))), _largest(together))

    def _on_keys(self, error: Array) -> Array:
        along: Array = error @ self.values.T
        return along - _sum(error * self.y) if self.noise.normalised else along


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

    rows: Array
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
    logits = spread**2 + bias**2
    toward_zero = np.sum(share * bias, 1)
    # 3. Rounding of P. It is exact for the largest logit of a single KV tile, or one that exceeds all others by more
    #    than the maximum may lag.
    near = 1e-9 * (1 + np.abs(m))
    largest = s >= m - near
    alone = largest & (m - np.where(s < m - near, s, -np.inf).max(1, keepdims=True) > 1.01 * LAG)
    exact = largest if case.one_tile else alone
    residual = (FP32 * (16 + top / np.log(2)))[:, None] ** 2
    of_p = np.where(exact, residual, P_VARIANCE * _mantissas(s, p)) * rows.repeats
    # 4. Errors of fp32 arithmetic: exponentials, sums, maxima, 1/l.
    n = len(rows.keys)
    sums = FP32 * np.sqrt(n) / 6
    fp32 = FP32 * (8 + 5 * top + n / STEP * core.truncation) + 2 * APPROXIMATION + SPREAD * sums
    outputs = {}
    if "U" in case.tensors:
        none = np.zeros((len(s), rows.values.shape[1]))
        allowed = CURVATURE + fp32 + toward_zero
        noise = Noise(p, of_p, logits, none, allowed, False, none, none)
        outputs["U"] = OutputModel(p @ rows.values, rows.values, noise)
    weight = p / whole
    o = weight @ rows.values
    # 5. Rounding of O. Where one key has nearly all weight, it is not random: O is nearly a number of bf16.
    rounding = np.where(o == 0, 0.0, np.exp2(np.floor(np.log2(np.maximum(np.abs(o), TINY))) - 8) ** 2 / 3)
    nearest, sure = rounded(o) - o, alone.any(1, keepdims=True)
    known = np.where(sure, nearest, 0.0)
    possible = np.where(~sure & (weight.max(1, keepdims=True) > DOMINATED), nearest, 0.0)
    of_sink = np.where(np.isfinite(rows.sink), np.abs(rows.sink), 0.0) * (1 - total / whole)[:, 0]
    allowed = 2 * CURVATURE + fp32 + 4 * FP32 * of_sink
    outputs["O"] = OutputModel(o, rows.values, Noise(weight, of_p, logits, rounding, allowed, True, known, possible))
    # 6. lse and m.
    random = np.sqrt(np.sum(share**2 * spread**2, 1) + sums**2)
    lse = (3 + 2 * log_sum) * APPROXIMATION + FP32 * (5 * top + np.abs(m[:, 0] + log_sum)) + toward_zero
    lse += FP32 * np.sum(share * np.abs(s), 1) + SPREAD * random
    reach = bias + SPREAD * spread + 5 * FP32 * np.abs(s)
    above, below = (s + reach).max(1) - m[:, 0], m[:, 0] - (s - reach).max(1)
    return Group(rows.rows, outputs, lse, above + FP32, below + FP32 + (0.0 if case.exact_maxima else LAG))


def _sharpest(y: Array, variance: Array, values: Array, rounding: Array) -> Array:
    """Return a direction for each row in which a common factor shows best: nearly C^-1 y, C the error's covariance.

    Any direction is valid, as it depends on the reference alone. A few steps of conjugate gradients suffice.
    """
    ridge = rounding + (2.0**-20) ** 2 * np.mean(y**2, 1, keepdims=True) + TINY
    x, r = np.zeros_like(y), y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), TINY)
    direction, size = r.copy(), _sum(r**2)
    for _ in range(ITERATIONS):
        image = (variance * (direction @ values.T)) @ values + ridge * direction
        step = size / np.maximum(_sum(direction * image), TINY)
        x, r = x + step * direction, r - step * image
        size, before = _sum(r**2), size
        direction = r + size / np.maximum(before, TINY) * direction
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), TINY)


def _mantissas(s: Array, p: Array) -> Array:
    """Return the largest mean of 1/f^2, f in [1, 2) the mantissas of P, that any reference maximum gives, [rows, 1].

    A row's mantissas move together with its maximum. The mean is largest if that of a heavy key is 1.
    """
    log2 = s / np.log(2)
    heavy = np.argpartition(s, -min(HEAVY, s.shape[1]), 1)[:, -HEAVY:]
    shifts = np.take_along_axis(log2, heavy, 1).T[..., None]
    sums = (_sum(p**2 * np.exp2(-2 * np.mod(log2 - shift, 1))) for shift in shifts)
    return np.maximum.reduce(list(sums)) / _sum(p**2)


def _sum(x: Array) -> Array:
    """Return the sums of rows, [rows, 1]."""
    return np.sum(x, 1, keepdims=True)


def _excess(error: Array, allowed: Array, sigma: Array) -> Array:
    """Return by how many standard deviations errors exceed the allowed ones, with their sign."""
    over = np.sign(error) * np.maximum(np.abs(error) - allowed, 0.0)
    return np.divide(over, np.maximum(sigma, TINY), out=np.zeros_like(over), where=over != 0)


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0))
