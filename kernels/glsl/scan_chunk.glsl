// Products of a chunk's rows with one another: scan_qk, d(j, i) (q_i k_j), zero where j > i; and with a delta rule scan_kk,
// beta_i d(j, i) (k_i k_j), zero where j >= i.  scan_from and scan_to: d(i), d(j, last).
void scan_put(uint i, uint j, float qk, float kk, float decay)
{
    scan_qk[i * LM + j / 4u][j % 4u] = decay * qk;
#if DELTA
    scan_kk[i * LM + j / 4u][j % 4u] = i > j ? scan_beta[i] * decay * kk : 0.0;
#endif
}

// Two rows by two.
void scan_products(uint count)
{
    uint pairs = (count + 1u) / 2u;
    for (uint at = gl_LocalInvocationIndex; at < pairs * (pairs + 1u) / 2u; at += WG) {
        uint b = uint(sqrt(2.0 * float(at) + 0.25) - 0.5);
        b -= uint(b * (b + 1u) / 2u > at);
        b += uint((b + 1u) * (b + 2u) / 2u <= at);
        uint i = 2u * b, j = 2u * (at - b * (b + 1u) / 2u);
        vec4 qk = vec4(0.0), kk = vec4(0.0); // (i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1)
        for (uint n = 0u; n < N / 4u; n++) {
            vec4 k0 = scan_k[j * LK + n], k1 = scan_k[j * LK + LK + n];
            vec4 q0 = scan_q[i * LK + n], q1 = scan_q[i * LK + LK + n];
            qk += vec4(dot(q0, k0), dot(q0, k1), dot(q1, k0), dot(q1, k1));
#if DELTA
            vec4 i0 = scan_k[i * LK + n], i1 = scan_k[i * LK + LK + n];
            kk += vec4(dot(i0, k0), dot(i0, k1), dot(i1, k0), dot(i1, k1));
#endif
        }
        float d = 1.0, last = scan_decay[i + 1u], after = scan_decay[j + 1u];
        for (uint n = j + 2u; n <= i; n++)
            d *= scan_decay[n];
        bool below = j < i;
        scan_put(i, j, qk.x, kk.x, below ? d * after : 1.0);
        scan_put(i, j + 1u, qk.y, kk.y, below ? d : 0.0);
        scan_put(i + 1u, j, qk.z, kk.z, below ? d * after * last : last);
        scan_put(i + 1u, j + 1u, qk.w, kk.w, below ? d * last : 1.0);
    }
    for (uint i = gl_LocalInvocationIndex; i < ROWS; i += WG) {
        float from = 1.0, to = 1.0;
        for (uint n = 0u; n < ROWS; n++) {
            from *= n <= i ? scan_decay[n] : 1.0;
            to *= n > i ? scan_decay[n] : 1.0;
        }
        scan_from[i] = from;
        scan_to[i] = to;
    }
}

// Zeros also where no row has a product.
void scan_clear()
{
    for (uint i = gl_LocalInvocationIndex; i < ROWS * LM; i += WG) {
        scan_qk[i] = vec4(0.0);
#if DELTA
        scan_kk[i] = vec4(0.0);
#endif
    }
}

// What stands for rows that the chunk has not, which changes nothing.
void scan_pad(uint count)
{
    for (uint i = count * LK + gl_LocalInvocationIndex; i < ROWS * LK; i += WG)
        scan_q[i] = scan_k[i] = vec4(0.0);
    for (uint i = count * P + gl_LocalInvocationIndex; i < ROWS * P; i += WG)
        scan_v[i] = 0.0;
    for (uint i = count + gl_LocalInvocationIndex; i < ROWS; i += WG) {
        scan_decay[i] = 1.0;
        scan_beta[i] = 0.0;
    }
}
