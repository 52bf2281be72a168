"""The single-pass learners in textbook form: dictionaries, one weight vector per hypothesis, nothing lazy."""

import math

BIAS = -1
LEAST, MOST = 2.0**-10, 2.0**200  # a Winnow's weights stay between these


class Learner:
    """One label's learner; `learn(x, y)` with x a dict of feature -> value and y = +1 or -1, `weights()` at the end."""

    def __init__(self, method, voted=False, alpha=1.5, beta=0.5, theta=1.0, margin=1.0, epsilon=1.0, gamma=0.1, bias=False):
        self.method, self.voted = method, voted
        self.alpha, self.beta, self.theta, self.margin, self.epsilon, self.gamma = alpha, beta, theta, margin, epsilon, gamma
        self.winnow = method in ("pw", "bw", "mbw")
        self.bias = bias or self.winnow
        self.start = {"pw": (1.0,), "bw": (2.0, 1.0), "mbw": (2.0, 1.0)}.get(method, (0.0,))
        self.w = {}  # feature -> list of its weights (u, v) or (w,)
        self.hypotheses = []  # (w, c) of the past ones
        self.right, self.wrong, self.updates = 0, 0, 0

    def vectors(self, j):
        return self.w.setdefault(j, list(self.start))

    def learn(self, x, y):
        x = {j: float(value) for j, value in x.items()}
        if self.bias:
            x[BIAS] = 1.0
        if self.winnow:
            total = math.fsum(x.values())
        dots = [math.fsum(value * self.vectors(j)[part] for j, value in x.items()) for part in range(len(self.start))]
        score = dots[0] - (dots[1] if len(dots) > 1 else 0.0)
        if self.winnow:
            score = score / total - self.theta
        self.wrong += (score > 0) != (y > 0)
        mistake = {
            "pw": (score > 0) != (y > 0),
            "bw": (score > 0) != (y > 0),
            "mbw": y * score <= self.margin,
            "perceptron": y * score <= 0,
            "pa": self.epsilon - y * score > 0,
            "romma": y * score <= 0,
        }[self.method]
        if not mistake:
            self.right += 1
            return
        self.updates += 1
        if self.voted:
            self.hypotheses.append(({j: tuple(v) for j, v in self.w.items()}, self.right))
            self.right = 0
        self.update(x if not self.winnow else {j: value / total for j, value in x.items()}, y, score)

    def update(self, x, y, score):
        square = math.fsum(value * value for value in x.values())
        if self.method == "romma":
            norm2 = math.fsum(v[0] * v[0] for v in self.w.values())
            if square == 0:
                return
            if norm2 == 0:
                c, b = 0.0, y / square
            else:
                room = square * norm2 - score * score
                if not room > 1e-12 * square * norm2:
                    return
                c, b = (square * norm2 - y * score) / room, norm2 * (y - score) / room
            for v in self.w.values():
                v[0] *= c
            for j, value in x.items():
                self.w[j][0] += b * value
            return
        for j, value in x.items():
            v = self.w[j]
            if self.method == "pw":
                v[0] *= self.alpha if y > 0 else self.beta
            elif self.method == "bw":
                v[0] *= self.alpha if y > 0 else self.beta
                v[1] *= self.beta if y > 0 else self.alpha
            elif self.method == "mbw":
                share = 0 if j == BIAS and len(x) == 1 else value  # a row without features must not end the bias
                rise, fall = self.alpha * (1 + share), self.beta * (1 - share)
                v[0] *= rise if y > 0 else fall
                v[1] *= fall if y > 0 else rise
            elif self.method == "perceptron":
                v[0] += y * value
            elif square + self.gamma > 0:
                v[0] += y * (self.epsilon - y * score) / (square + self.gamma) * value
            if self.winnow:
                v[:] = [min(max(weight, LEAST), MOST) for weight in v]

    def weights(self):
        hypotheses = [*self.hypotheses, (self.w, self.right)]
        total = sum(c for _, c in hypotheses)
        if not self.voted or total == 0:
            return self.w
        return {
            j: [math.fsum(c * w.get(j, self.start)[part] for w, c in hypotheses) / total for part in range(len(self.start))]
            for j in self.w
        }

    def linear(self):
        out = {j: v[0] - (v[1] if len(v) > 1 else 0.0) - (self.theta if self.winnow else 0.0) for j, v in self.weights().items()}
        return {BIAS: 0.0, **out}
