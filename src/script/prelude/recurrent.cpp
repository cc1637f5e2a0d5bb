// torch.nn: recurrent layers, attention.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char recurrent[] = R"py(
class _RNNBase(Module):
    def _set(self, gates, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size):
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self.num_directions = 2 if bidirectional else 1
        self._flat = []
        for layer in range(num_layers):
            for direction in range(self.num_directions):
                suffix = "_reverse" if direction == 1 else ""
                names = ["weight_ih_l{}{}", "weight_hh_l{}{}"]
                if bias:
                    names += ["bias_ih_l{}{}", "bias_hh_l{}{}"]
                if proj_size > 0:
                    names += ["weight_hr_l{}{}"]
                for n in names:
                    p = Parameter(None)
                    self.register_parameter(n.format(layer, suffix), p)
                    self._flat.append(p)
    def _zeros(self, input, batch: int, size: int):
        return torch.zeros(self.num_layers * self.num_directions, batch, size, dtype=input.dtype, device=input.device)

class RNN(_RNNBase):
    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None):
        self.nonlinearity = nonlinearity
        self._tanh = nonlinearity == "tanh"
        self._set(1, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0)
    def forward(self, input, hx: Optional[Tensor] = None):
        batched = input.dim() == 3
        x = input
        if not batched:
            x = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            h = self._zeros(x, x.size(0 if self.batch_first else 1), self.hidden_size)
        else:
            h = hx
            if not batched:
                h = hx.unsqueeze(1)
        if self._tanh:
            y, hn = torch.rnn_tanh(x, h, self._flat, self.bias, self.num_layers, self.dropout, False, self.bidirectional, self.batch_first)
        else:
            y, hn = torch.rnn_relu(x, h, self._flat, self.bias, self.num_layers, self.dropout, False, self.bidirectional, self.batch_first)
        if not batched:
            y = y.squeeze(0 if self.batch_first else 1)
            hn = hn.squeeze(1)
        return y, hn

class GRU(_RNNBase):
    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None):
        self._set(3, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0)
    def forward(self, input, hx: Optional[Tensor] = None):
        batched = input.dim() == 3
        x = input
        if not batched:
            x = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            h = self._zeros(x, x.size(0 if self.batch_first else 1), self.hidden_size)
        else:
            h = hx
            if not batched:
                h = hx.unsqueeze(1)
        y, hn = torch.gru(x, h, self._flat, self.bias, self.num_layers, self.dropout, False, self.bidirectional, self.batch_first)
        if not batched:
            y = y.squeeze(0 if self.batch_first else 1)
            hn = hn.squeeze(1)
        return y, hn

class LSTM(_RNNBase):
    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None):
        self._set(4, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size)
    def forward(self, input, hx: Optional[Tuple[Tensor, Tensor]] = None):
        batched = input.dim() == 3
        x = input
        if not batched:
            x = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            batch = x.size(0 if self.batch_first else 1)
            h = self._zeros(x, batch, self.proj_size if self.proj_size > 0 else self.hidden_size)
            c = self._zeros(x, batch, self.hidden_size)
        else:
            h, c = hx
            if not batched:
                h = h.unsqueeze(1)
                c = c.unsqueeze(1)
        y, hn, cn = torch.lstm(x, [h, c], self._flat, self.bias, self.num_layers, self.dropout, False, self.bidirectional, self.batch_first)
        if not batched:
            y = y.squeeze(0 if self.batch_first else 1)
            hn = hn.squeeze(1)
            cn = cn.squeeze(1)
        return y, (hn, cn)

class _Cell(Module):
    def _set(self, input_size, hidden_size, bias):
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.weight_ih = Parameter(None)
        self.weight_hh = Parameter(None)
        self.bias_ih = Parameter(None) if bias else None
        self.bias_hh = Parameter(None) if bias else None
    def _zeros(self, x):
        return torch.zeros(x.size(0), self.hidden_size, dtype=x.dtype, device=x.device)

class RNNCell(_Cell):
    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        self.nonlinearity = nonlinearity
        self._tanh = nonlinearity == "tanh"
        self._set(input_size, hidden_size, bias)
    def forward(self, input, hx: Optional[Tensor] = None):
        batched = input.dim() == 2
        x = input
        if not batched:
            x = input.unsqueeze(0)
        if hx is None:
            h = self._zeros(x)
        else:
            h = hx
            if not batched:
                h = hx.unsqueeze(0)
        if self._tanh:
            out = torch.rnn_tanh_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        else:
            out = torch.rnn_relu_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if not batched:
            out = out.squeeze(0)
        return out

class GRUCell(_Cell):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        self._set(input_size, hidden_size, bias)
    def forward(self, input, hx: Optional[Tensor] = None):
        batched = input.dim() == 2
        x = input
        if not batched:
            x = input.unsqueeze(0)
        if hx is None:
            h = self._zeros(x)
        else:
            h = hx
            if not batched:
                h = hx.unsqueeze(0)
        out = torch.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if not batched:
            out = out.squeeze(0)
        return out

class LSTMCell(_Cell):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        self._set(input_size, hidden_size, bias)
    def forward(self, input, hx: Optional[Tuple[Tensor, Tensor]] = None):
        batched = input.dim() == 2
        x = input
        if not batched:
            x = input.unsqueeze(0)
        if hx is None:
            h = self._zeros(x)
            c = self._zeros(x)
        else:
            h, c = hx
            if not batched:
                h = h.unsqueeze(0)
                c = c.unsqueeze(0)
        hn, cn = torch.lstm_cell(x, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if not batched:
            hn = hn.squeeze(0)
            cn = cn.squeeze(0)
        return hn, cn

class NonDynamicallyQuantizableLinear(Linear):
    pass

class MultiheadAttention(Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False, device=None, dtype=None):
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.batch_first = batch_first
        self._same = (kdim is None or kdim == embed_dim) and (vdim is None or vdim == embed_dim)
        if self._same:
            self.in_proj_weight = Parameter(None)
        else:
            self.q_proj_weight = Parameter(None)
            self.k_proj_weight = Parameter(None)
            self.v_proj_weight = Parameter(None)
        self.in_proj_bias = Parameter(None) if bias else None
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias)
        if add_bias_kv or add_zero_attn:
            raise ValueError("add_bias_kv and add_zero_attn are not supported")
    def forward(self, query, key, value, key_padding_mask: Optional[Tensor] = None, need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
        batched = query.dim() == 3
        q, k, v = query, key, value
        if not batched:
            q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        n, b, e = q.size(0), q.size(1), self.embed_dim
        m = k.size(0)
        if self._same:
            wq, wk, wv = self.in_proj_weight.chunk(3)
        else:
            wq, wk, wv = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        bias = self.in_proj_bias
        if bias is not None:
            bq, bk, bv = bias.chunk(3)
            q, k, v = F.linear(q, wq, bq), F.linear(k, wk, bk), F.linear(v, wv, bv)
        else:
            q, k, v = F.linear(q, wq), F.linear(k, wk), F.linear(v, wv)
        q = q.reshape(n, b * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.reshape(m, b * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.reshape(m, b * self.num_heads, self.head_dim).transpose(0, 1)
        scores = torch.bmm(q * (1.0 / float(self.head_dim) ** 0.5), k.transpose(1, 2))
        if attn_mask is not None:
            mask = attn_mask
            if mask.dtype == torch.bool:
                mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(mask, float("-inf"))
            scores = scores + mask
        if key_padding_mask is not None:
            pad = key_padding_mask
            if pad.dtype == torch.bool:
                pad = torch.zeros_like(pad, dtype=scores.dtype).masked_fill(pad, float("-inf"))
            pad = pad.view(b, 1, 1, m).expand(b, self.num_heads, 1, m).reshape(b * self.num_heads, 1, m)
            scores = scores + pad
        weights = torch.softmax(scores, -1)
        out = torch.bmm(weights, v).transpose(0, 1).reshape(n, b, e)
        out = self.out_proj(out)
        if not batched:
            out = out.squeeze(1)
        elif self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        weights = weights.view(b, self.num_heads, n, m)
        if average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            weights = weights.squeeze(0)
        return out, weights
)py";

} // namespace tenon::script::prelude
