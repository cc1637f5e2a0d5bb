// What rows' derivatives call, in the script language: recurrent layers and linear algebra.
#include "autodiff/derivatives.h"

namespace tenon::autodiff::prelude {

const char recurrent[] = R"py(
# ---- recurrent layers: cells from what the input and the state give

def lstm_step(gates, c):
    i, f, g, o = gates.chunk(4, -1)
    cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell

def gru_step(from_input, from_state, h):
    r, z, n = from_input.chunk(3, -1)
    hr, hz, hn = from_state.chunk(3, -1)
    update = torch.sigmoid(z + hz)
    candidate = torch.tanh(n + torch.sigmoid(r + hr) * hn)
    return candidate + update * (h - candidate)

def rnn_tanh_step(from_input, from_state, h):
    return torch.tanh(from_input + from_state)

def rnn_relu_step(from_input, from_state, h):
    return torch.relu(from_input + from_state)

def next_state(kind: str, from_input, from_state, h):
    if kind == "gru":
        return gru_step(from_input, from_state, h)
    if kind == "tanh":
        return rnn_tanh_step(from_input, from_state, h)
    return rnn_relu_step(from_input, from_state, h)

def bias_of(params: List[Tensor], at: int, has_biases: bool) -> Optional[Tensor]:
    return params[at] if has_biases else None

def run_layer(kind: str, x, h, params: List[Tensor], first: int, has_biases: bool, backward: bool):
    steps: List[Tensor] = []
    n = x.size(0)
    all = torch.linear(x, params[first], bias_of(params, first + 2, has_biases))
    for k in range(n):
        t = n - 1 - k if backward else k
        h = next_state(kind, all[t], torch.linear(h, params[first + 1], bias_of(params, first + 3, has_biases)), h)
        steps.append(h)
    out = torch.stack(steps, 0)
    return out.flip([0]) if backward else out, h

def run_layers(kind: str, input, hx, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool):
    x = input.transpose(0, 1) if batch_first and input.dim() == 3 else input
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    last: List[Tensor] = []
    for layer in range(num_layers):
        outs: List[Tensor] = []
        for d in range(directions):
            k = layer * directions + d
            out, h = run_layer(kind, x, hx[k], params, k * each, has_biases, d == 1)
            outs.append(out)
            last.append(h)
        x = torch.cat(outs, -1)
        if dropout > 0.0 and train and layer + 1 < num_layers:
            x = torch.dropout(x, dropout, True)
    return x.transpose(0, 1) if batch_first and input.dim() == 3 else x, torch.stack(last, 0)

def gru_of(input, hx, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool):
    return run_layers("gru", input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

def rnn_tanh_of(input, hx, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool):
    return run_layers("tanh", input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

def rnn_relu_of(input, hx, params: List[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool):
    return run_layers("relu", input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

def lstm_of(input, hx: List[Tensor], params: List[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool):
    x = input.transpose(0, 1) if batch_first and input.dim() == 3 else input
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    if len(params) == directions * num_layers * (each + 1):
        each = each + 1
    states: List[Tensor] = []
    cells: List[Tensor] = []
    for layer in range(num_layers):
        outs: List[Tensor] = []
        for d in range(directions):
            k = layer * directions + d
            first = k * each
            h = hx[0][k]
            c = hx[1][k]
            steps: List[Tensor] = []
            n = x.size(0)
            all = torch.linear(x, params[first], bias_of(params, first + 2, has_biases))
            for i in range(n):
                t = n - 1 - i if d == 1 else i
                h, c = lstm_step(all[t] + torch.linear(h, params[first + 1], bias_of(params, first + 3, has_biases)), c)
                if each == 3 or each == 5:
                    h = torch.linear(h, params[first + each - 1])
                steps.append(h)
            out = torch.stack(steps, 0)
            outs.append(out.flip([0]) if d == 1 else out)
            states.append(h)
            cells.append(c)
        x = torch.cat(outs, -1)
        if dropout > 0.0 and train and layer + 1 < num_layers:
            x = torch.dropout(x, dropout, True)
    return x.transpose(0, 1) if batch_first and input.dim() == 3 else x, torch.stack(states, 0), torch.stack(cells, 0)

# ---- linear algebra

def of_determinant(grad, self):
    return grad.unsqueeze(-1).unsqueeze(-1) * torch.linalg_inv(self).mT

def is_vector(A, B_size: List[int]) -> bool:
    return len(B_size) == 1 or (len(B_size) == A.dim() - 1 and B_size == A.size()[:-1])

def solve_right(grad, A, B_size: List[int], left: bool):
    return torch.linalg_solve(A.mT, grad, left=left).sum_to_size(B_size)

def solve_matrix(grad, A, B_size: List[int], result, left: bool):
    g = torch.linalg_solve(A.mT, grad, left=left)
    if is_vector(A, B_size):
        return -(g.unsqueeze(-1) * result.unsqueeze(-2)).sum_to_size(A.size())
    if left:
        return -(g @ result.mT).sum_to_size(A.size())
    return -(result.mT @ g).sum_to_size(A.size())

def of_cholesky(grad, result, upper: bool):
    L = result.mT if upper else result
    g = grad.mT if upper else grad
    inner = (L.mT @ g).tril()
    inner = inner - 0.5 * torch.diag_embed(torch.diagonal(inner, 0, -2, -1))
    left = torch.linalg_solve_triangular(L.mT, inner, upper=True)
    out = torch.linalg_solve_triangular(L, left, upper=False, left=False)
    return 0.5 * (out + out.mT)

def triangular_matrix(grad, self, result, upper: bool, left: bool, unitriangular: bool):
    g = torch.linalg_solve_triangular(self.mT, grad, upper=not upper, left=left, unitriangular=unitriangular)
    out = -(g @ result.mT) if left else -(result.mT @ g)
    out = out.sum_to_size(self.size())
    off = 1 if unitriangular else 0
    return out.triu(off) if upper else out.tril(-off)

def of_eigh(grad_values, grad_vectors, values, vectors):
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    inner = vectors.mT @ grad_vectors / torch.where(gaps == 0, math.inf, gaps)
    return vectors @ (inner + torch.diag_embed(grad_values)) @ vectors.mT

def of_qr(grad_q, grad_r, Q, R):
    m = R @ grad_r.mT - grad_q.mT @ Q
    lower = m.tril(-1)
    symmetric = m.tril() + lower.mT
    return torch.linalg_solve_triangular(R.mT, grad_q + Q @ symmetric, upper=False, left=False)

def of_svd(grad_u, grad_s, grad_vh, U, S, Vh):
    squares = S * S
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    gaps = torch.where(gaps == 0, math.inf, gaps)
    u = U.mT @ grad_u
    v = Vh @ grad_vh.mT
    inner = ((u - u.mT) / gaps) * S.unsqueeze(-2) + S.unsqueeze(-1) * ((v - v.mT) / gaps) + torch.diag_embed(grad_s)
    out = U @ inner @ Vh
    if U.size(-2) > S.size(-1):
        out = out + (grad_u - U @ u) / S.unsqueeze(-2) @ Vh
    if Vh.size(-1) > S.size(-1):
        out = out + U @ ((grad_vh - (grad_vh @ Vh.mT) @ Vh) / S.unsqueeze(-1))
    return out

def of_matrix_exp(grad, self):
    n = self.size(-1)
    turned_self = self.mT
    top = torch.cat([turned_self, grad], -1)
    below = torch.cat([torch.zeros_like(self), turned_self], -1)
    return torch.linalg_matrix_exp(torch.cat([top, below], -2)).narrow(-2, 0, n).narrow(-1, n, n)

)py";

} // namespace tenon::autodiff::prelude
