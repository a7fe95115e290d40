"""Programs whose tiles keep their guards: computed twice, elements would not be the same."""

KEPT = {
    "in place": """
def main(A: T.Buffer((11,), "float32")):
    for i, j in T.grid(3, 4):
        with T.sblock("A"):
            v = T.axis.spatial(11, i * 4 + j)
            T.where(i * 4 + j < 11)
            A[v] = A[v] * T.float32(2)
""",
    "a sum over loops outside": """
def main(A: T.Buffer((5, 11), "float32"), B: T.Buffer((11,), "float32")):
    for k, i, j in T.grid(5, 3, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            vk = T.axis.reduce(5, k)
            T.where(i * 4 + j < 11)
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[vk, v]
""",
    "a sum in shared memory, of parallel tiles": """
def main(A: T.Buffer((5, 11), "float32"), B: T.Buffer((11,), "float32")):
    for i in T.parallel(3):
        for j, k in T.grid(4, 5):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                vk = T.axis.reduce(5, k)
                T.where(i * 4 + j < 11)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[vk, v]
""",
    "a state from one tile to the next": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((1,), "float32")
    for i in range(3):
        for j in range(4):
            with T.sblock("S"):
                v = T.axis.opaque(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                S[0] = T.if_then_else(v == 0, A[v], S[0] + A[v])
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[0]
""",
    "what another block of the loops writes": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((12,), "float32")):
    for i in range(3):
        with T.sblock("mark"):
            v = T.axis.spatial(3, i)
            B[v * 4] = T.float32(0)
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = A[v]
""",
    "a tile that another index tells of": """
def main(A: T.Buffer((3, 11), "float32"), B: T.Buffer((11,), "float32")):
    for i, j in T.grid(3, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            w = T.axis.spatial(3, (i + 1) % 3)
            T.where(i * 4 + j < 11)
            B[v] = A[w, v]
""",
    "gaps between tiles": """
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i, j in T.grid(3, 3):
        with T.sblock("B"):
            v = T.axis.spatial(16, i * 4 + j)
            T.where(i * 4 + j < 10)
            B[v] = A[v]
""",
    "a variable of a loop in a block": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    for i, j in T.grid(3, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            T.where(i * 4 + j < 11)
            B[v] = A[v] * T.Cast("float32", i)
""",
    "an extent below one tile": """
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
    for i, j in T.grid(2, 4):
        with T.sblock("B"):
            v = T.axis.spatial(3, i * 4 + j)
            T.where(i * 4 + j < 3)
            B[v] = A[v]
""",
    "a temporary that nothing reads": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    D = T.sblock_alloc_buffer((11,), "float32")
    for i, j in T.grid(3, 4):
        with T.sblock("D"):
            v = T.axis.spatial(11, i * 4 + j)
            T.where(i * 4 + j < 11)
            D[v] = A[v]
    for i in range(11):
        with T.sblock("B"):
            v = T.axis.spatial(11, i)
            B[v] = A[v]
""",
    "tiles along a diagonal": """
def main(A: T.Buffer((11, 11), "float32"), B: T.Buffer((11, 11), "float32")):
    for i, j, k in T.grid(3, 4, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            w = T.axis.spatial(11, i * 4 + k)
            T.where(i * 4 + j < 11 and i * 4 + k < 11)
            B[v, w] = A[v, w]
""",
    "a place in the tile as an index": """
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((11,), "float32")):
    for i, j in T.grid(3, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            w = T.axis.spatial(4, j)
            T.where(i * 4 + j < 11)
            B[v] = A[w]
""",
    "the start of the tile as an index": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    for i, j in T.grid(3, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            w = T.axis.spatial(11, i * 4)
            T.where(i * 4 + j < 11)
            B[v] = A[v] - A[w]
""",
    "the start of the tile in a condition": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    for i, j in T.grid(3, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            T.where(i * 4 + j < 11 and 7 < i * 4)
            B[v] = A[v]
""",
    "a variable that stands for a loop's": """
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((11,), "float32")):
    for i in range(3):
        x: T.let[T.int32] = i
        for y, j in T.grid(1, 4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                w = T.axis.spatial(3, x)
                T.where(i * 4 + j < 11)
                B[v] = A[w]
""",
    "elements that two blocks write": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((12,), "float32")):
    for i in range(3):
        for j in range(4):
            with T.sblock("zero"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = T.float32(0)
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v + 1] = A[v]
""",
    "elements that indices scatter": """
def main(A: T.Buffer((5, 11), "int32"), B: T.Buffer((11,), "int32")):
    for i, k, j in T.grid(3, 5, 4):
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            w = T.axis.spatial(5, k)
            T.where(i * 4 + j < 11)
            B[A[w, v]] = w
""",
    "a sum of a tile": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((1,), "float32")
    for i in range(3):
        for j in range(4):
            with T.sblock("S"):
                v = T.axis.spatial(11, i * 4)
                r = T.axis.reduce(4, j)
                T.where(i * 4 + j < 11)
                with T.init():
                    S[0] = T.float32(0)
                S[0] = S[0] + A[v + r]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = A[v] - S[0]
""",
    "the first element of a tile": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((11,), "float32")
    for i in range(3):
        for j in range(4):
            with T.sblock("S"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                S[v] = A[v] * A[v]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = A[v] - S[v // 4 * 4]
""",
    "what is set later in the tile": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((16,), "float32")
    for i, j in T.grid(3, 4):
        with T.sblock("S"):
            v = T.axis.spatial(11, i * 4 + j)
            T.where(i * 4 + j < 11)
            S[v + 1] = A[v]
        with T.sblock("B"):
            v = T.axis.spatial(11, i * 4 + j)
            T.where(i * 4 + j < 11)
            B[v] = S[v]
""",
    "a tensor with another name": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    for i in range(3):
        for j in range(4):
            with T.sblock("double"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = A[v] * T.float32(2)
        for j in range(4):
            with T.sblock("more"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                T.reads(B[v : v + 1])
                T.writes(B[v : v + 1])
                M = T.match_buffer(B[v : v + 1], (1,), "float32", offset_factor=1)
                M[0] = M[0] + T.float32(1)
""",
    "what TVM may put where its operand was": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    C = T.sblock_alloc_buffer((11,), "float32")
    D = T.sblock_alloc_buffer((11,), "float32")
    for i in range(11):
        with T.sblock("C"):
            v = T.axis.spatial(11, i)
            C[v] = A[v] + T.float32(1)
    for i, j in T.grid(3, 4):
        with T.sblock("D"):
            v = T.axis.spatial(11, i * 4 + j)
            T.where(i * 4 + j < 11)
            D[v] = C[v] * T.float32(3)
    for i in range(11):
        with T.sblock("B"):
            v = T.axis.spatial(11, i)
            B[v] = D[v] + D[10 - v]
""",
    "a tensor inside vectors": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((11,), "float32")
    for i in range(3):
        for j in T.vectorized(4):
            with T.sblock("S"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                S[v] = A[v] * T.float32(2)
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[v]
""",
    "a sum in parts that loops outside add up": """
def main(A: T.Buffer((4, 11), "float32"), B: T.Buffer((2, 11), "float32")):
    S = T.sblock_alloc_buffer((11,), "float32")
    for o in range(2):
        for i in T.parallel(3):
            for j in range(4):
                with T.sblock("zero"):
                    v = T.axis.spatial(11, i * 4 + j)
                    T.where(i * 4 + j < 11)
                    S[v] = T.float32(0)
            for k, j in T.grid(2, 4):
                with T.sblock("S"):
                    v = T.axis.spatial(11, i * 4 + j)
                    r = T.axis.reduce(4, o * 2 + k)
                    T.where(i * 4 + j < 11)
                    S[v] = S[v] + A[r, v]
            for j in range(4):
                with T.sblock("B"):
                    v = T.axis.spatial(11, i * 4 + j)
                    w = T.axis.spatial(2, o)
                    T.where(i * 4 + j < 11)
                    B[w, v] = S[v]
""",
    "a part of a tile that is set again": """
def main(A: T.Buffer((14,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((14,), "float32")
    for i in range(3):
        for j in range(6):
            with T.sblock("halo"):
                v = T.axis.spatial(14, i * 4 + j)
                S[v] = A[v]
        for j in range(4):
            with T.sblock("core"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                S[v] = A[v] * T.float32(2)
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[v + 2]
""",
    "tiles that are set again": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((11,), "float32")
    for i in range(3):
        for j in range(4):
            with T.sblock("zero"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                S[v] = T.float32(0)
        for j in range(4):
            with T.sblock("S"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11 and 7 < i * 4)
                S[v] = A[v]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[v]
""",
    "a part of a tile that is added to": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((11,), "float32")
    for i in range(3):
        for j in range(4):
            with T.sblock("zero"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                S[v] = T.float32(0)
        for j in range(4):
            with T.sblock("S"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11 and j < 2)
                S[v] = S[v] + A[v]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[v]
""",
    "elements that a tile adds to several times": """
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((16,), "float32")
    for i in range(3):
        for j in range(6):
            with T.sblock("zero"):
                v = T.axis.spatial(16, i * 4 + j)
                S[v] = T.float32(0)
        for j, k in T.grid(2, 4):
            with T.sblock("S"):
                v = T.axis.spatial(16, i * 4 + j * 2 + k)
                S[v] = S[v] + A[v]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[v]
""",
    "what TVM allocates outside of parallel loops": """
def main(A: T.Buffer((2, 5, 11), "float32"), B: T.Buffer((2, 11), "float32")):
    S = T.sblock_alloc_buffer((2, 11), "float32")
    for o in range(2):
        for i in T.parallel(3):
            for j, k in T.grid(4, 5):
                with T.sblock("S"):
                    w = T.axis.opaque(2, o)
                    v = T.axis.spatial(11, i * 4 + j)
                    r = T.axis.reduce(5, k)
                    T.where(i * 4 + j < 11)
                    with T.init():
                        S[w, v] = T.float32(0)
                    S[w, v] = S[w, v] + A[w, r, v]
            for j in range(4):
                with T.sblock("B"):
                    w = T.axis.spatial(2, o)
                    v = T.axis.spatial(11, i * 4 + j)
                    T.where(i * 4 + j < 11)
                    B[w, v] = S[w, v]
""",
    "a tensor of one block, inside vectors": """
def main(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((11,), "float32")
    for i in range(3):
        for j in T.vectorized(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                S[v] = A[v]
                B[v] = A[v] * T.float32(2)
""",
    "a sum of which the tile leaves out a part": """
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((1,), "float32")
    for i in range(3):
        with T.sblock("zero"):
            v = T.axis.spatial(1, 0)
            S[v] = T.float32(0)
        for j in range(4):
            with T.sblock("S"):
                v = T.axis.spatial(1, 0)
                r = T.axis.reduce(4, j)
                T.where(i * 4 + j < 11)
                S[v] = S[v] + A[r]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[0]
""",
    "elements that two blocks count in turns": """
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((16,), "float32")
    U = T.sblock_alloc_buffer((16,), "float32")
    for i in range(3):
        for j in range(6):
            with T.sblock("zero"):
                v = T.axis.spatial(16, i * 4 + j)
                S[v] = T.float32(0)
        for j, k in T.grid(2, 4):
            with T.sblock("U"):
                v = T.axis.spatial(16, i * 4 + j * 2 + k)
                U[v] = S[v] + A[v]
            with T.sblock("S"):
                v = T.axis.spatial(16, i * 4 + j * 2 + k)
                S[v] = U[v]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[v]
""",
    "gaps that were not computed before": """
def main(A: T.Buffer((7,), "float32"), B: T.Buffer((11,), "float32")):
    S = T.sblock_alloc_buffer((21,), "float32")
    for i in range(3):
        for j in range(7):
            with T.sblock("S"):
                v = T.axis.spatial(21, i * 8 + j)
                T.where(i * 8 + j < 21)
                S[v] = A[v % 8]
        for j in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(11, i * 4 + j)
                T.where(i * 4 + j < 11)
                B[v] = S[v * 2]
""",
}
