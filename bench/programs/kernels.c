/* What jobs of MPI are made of: `kernels WHAT [TIMES]`. The first rank prints how many seconds it took. Each checks its result.
 * In sizes and messages is, cg, mg and ft are like class A of the NAS Parallel Benchmarks (NAS Technical Report
 * RNR-94-007, 1994); the code is not theirs. The number of ranks is a power of two, 64 at most.
 *
 * is        sorts 2^23 integers, ten times: all to all
 * cg        conjugate gradients, 14,000 unknowns: short messages in a row
 * mg        multigrid, 256^3 points: faces of all lengths
 * ft        a 3-D Fourier transform of 256 * 256 * 128 points and back, three times: all to all, long
 * halo      faces of 128 KB with six neighbours, 200 times
 * onesided  puts of 64 KB to every other rank, 50 times
 */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void *room(size_t bytes) {
    void *at = calloc(1, bytes);
    if (!at) MPI_Abort(MPI_COMM_WORLD, 3);
    return at;
}

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static uint64_t state = 1;

static uint32_t draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static double sum_of_all(double own) {
    double sum;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* ---- is ---- */

enum { KEYS = 1 << 23, KEY_MAX = 1 << 19, BUCKETS = 1 << 10, SORTS = 10 };

static void sort_once(const int *keys, int count, int sort) {
    int *sizes = room(BUCKETS * sizeof(int)), *all = room(BUCKETS * sizeof(int));
    int *send = room(ranks * sizeof(int)), *take = room(ranks * sizeof(int));
    int *send_at = room((ranks + 1) * sizeof(int)), *take_at = room((ranks + 1) * sizeof(int));
    int *owner = room(BUCKETS * sizeof(int)), *at = room(BUCKETS * sizeof(int));
    int *ordered = room(count * sizeof(int)), width = KEY_MAX / BUCKETS;
    for (int i = 0; i < count; i++) sizes[keys[i] / width]++;
    MPI_Allreduce(sizes, all, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    /* Each rank owns buckets that lie together, of about as many keys. */
    long before = 0;
    for (int b = 0; b < BUCKETS; b++) {
        owner[b] = (int)(before * ranks / KEYS);
        before += all[b];
        send[owner[b]] += sizes[b];
    }
    for (int b = 1; b < BUCKETS; b++) at[b] = at[b - 1] + sizes[b - 1];
    for (int i = 0; i < count; i++) ordered[at[keys[i] / width]++] = keys[i];
    MPI_Alltoall(send, 1, MPI_INT, take, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) send_at[r + 1] = send_at[r] + send[r];
    for (int r = 0; r < ranks; r++) take_at[r + 1] = take_at[r] + take[r];
    int own = take_at[ranks], *taken = room((own + 1) * sizeof(int));
    MPI_Alltoallv(ordered, send, send_at, MPI_INT, taken, take, take_at, MPI_INT, MPI_COMM_WORLD);
    int *ranking = room(KEY_MAX * sizeof(int)), low = KEY_MAX, high = -1;
    for (int i = 0; i < own; i++) {
        ranking[taken[i]]++;
        if (taken[i] < low) low = taken[i];
        if (taken[i] > high) high = taken[i];
    }
    /* What the rank before has is less. */
    int below = -1;
    MPI_Sendrecv(&high, 1, MPI_INT, (rank + 1) % ranks, sort, &below, 1, MPI_INT,
                 (rank + ranks - 1) % ranks, sort, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    must(rank == 0 || below < low, "order of keys");
    must(sum_of_all(own) == KEYS, "number of keys");
    void *rooms[] = {sizes, all, send, take, send_at, take_at, owner, at, ordered, taken, ranking};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]);
}

static void is(void) {
    int count = KEYS / ranks, *keys = room(count * sizeof(int));
    state = 1000 + rank;
    for (int i = 0; i < count; i++) {
        uint32_t sum = 0;
        for (int j = 0; j < 4; j++) sum += draw() % (KEY_MAX / 4);
        keys[i] = (int)sum;
    }
    for (int sort = 0; sort < SORTS; sort++) sort_once(keys, count, sort);
    free(keys);
}

/* ---- cg ---- */

enum { UNKNOWNS = 14336, IN_ROW = 96, OUTER = 15, INNER = 25 };

static double dot(const double *a, const double *b, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += a[i] * b[i];
    return sum_of_all(sum);
}

/* The matrix: a band, and two diagonals far from it, all of one number; a greater one in the middle. */
static void multiply(const double *all, double *own, int count) {
    for (int i = 0; i < count; i++) {
        int row = rank * count + i;
        double sum = 2.0 * IN_ROW * all[row];
        for (int j = 1; j <= IN_ROW / 2; j++) {
            int left = row - j * 7, right = row + j * 7;
            if (left >= 0) sum -= all[left];
            if (right < UNKNOWNS) sum -= all[right];
        }
        own[i] = sum;
    }
}

static void cg(void) {
    int count = UNKNOWNS / ranks;
    size_t bytes = count * sizeof(double);
    double *x = room(bytes), *r = room(bytes), *p = room(bytes), *q = room(bytes);
    double *all = room(UNKNOWNS * sizeof(double));
    for (int outer = 0; outer < OUTER; outer++) {
        memset(x, 0, bytes);
        for (int i = 0; i < count; i++) r[i] = p[i] = 1 + (rank * count + i + outer) % 5;
        double first = dot(r, r, count), rho = first;
        for (int inner = 0; inner < INNER; inner++) {
            MPI_Allgather(p, count, MPI_DOUBLE, all, count, MPI_DOUBLE, MPI_COMM_WORLD);
            multiply(all, q, count);
            double alpha = rho / dot(p, q, count);
            for (int i = 0; i < count; i++) x[i] += alpha * p[i], r[i] -= alpha * q[i];
            double next = dot(r, r, count), beta = next / rho;
            rho = next;
            for (int i = 0; i < count; i++) p[i] = r[i] + beta * p[i];
        }
        must(rho < first * 1e-12, "rest of the equations");
    }
    free(x), free(r), free(p), free(q), free(all);
}

/* ---- faces of a box, for mg and halo ---- */

/* How many ranks there are along each axis, and where this one is. */
static int shape[3] = {0, 0, 0}, place[3];
static MPI_Comm grid;

static void lay_out(void) {
    int periodic[3] = {1, 1, 1};
    MPI_Dims_create(ranks, 3, shape);
    MPI_Cart_create(MPI_COMM_WORLD, 3, shape, periodic, 0, &grid);
    MPI_Cart_coords(grid, rank, 3, place);
}

/* A box of n[0] * n[1] * n[2] points with a layer of others' points around it. */
#define AT(n, i, j, k) ((((size_t)(i)) * ((n)[1] + 2) + (j)) * ((n)[2] + 2) + (k))

/* Copies one layer out of the box or into it. */
static void layer(double *box, const int *n, int axis, int at, double *flat, int is_in) {
    int from[3] = {0, 0, 0}, to[3] = {n[0] + 1, n[1] + 1, n[2] + 1};
    from[axis] = to[axis] = at;
    for (int i = from[0]; i <= to[0]; i++)
        for (int j = from[1]; j <= to[1]; j++)
            for (int k = from[2]; k <= to[2]; k++) {
                double *point = &box[AT(n, i, j, k)];
                if (is_in) *point = *flat++;
                else *flat++ = *point;
            }
}

/* Axis after axis, so that edges and corners come along. */
static void exchange(double *box, const int *n) {
    for (int axis = 0; axis < 3; axis++) {
        int u = (axis + 1) % 3, v = (axis + 2) % 3, size = (n[u] + 2) * (n[v] + 2), low, high;
        double *flat = room(4 * (size_t)size * sizeof(double));
        MPI_Request all[4];
        MPI_Cart_shift(grid, axis, 1, &low, &high);
        layer(box, n, axis, 1, flat, 0);
        layer(box, n, axis, n[axis], flat + size, 0);
        MPI_Irecv(flat + 2 * size, size, MPI_DOUBLE, low, 1, grid, &all[0]);
        MPI_Irecv(flat + 3 * size, size, MPI_DOUBLE, high, 2, grid, &all[1]);
        MPI_Isend(flat + size, size, MPI_DOUBLE, high, 1, grid, &all[2]);
        MPI_Isend(flat, size, MPI_DOUBLE, low, 2, grid, &all[3]);
        MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
        layer(box, n, axis, 0, flat + 2 * size, 1);
        layer(box, n, axis, n[axis] + 1, flat + 3 * size, 1);
        free(flat);
    }
}

static void halo(void) {
    lay_out();
    int n[3] = {126, 126, 126};
    double *box = room(AT(n, n[0] + 2, 0, 0) * sizeof(double));
    for (int round = 0; round < 200; round++) {
        for (int axis = 0; axis < 3; axis++) {
            int middle[3] = {60, 60, 60};
            middle[axis] = n[axis];
            box[AT(n, middle[0], middle[1], middle[2])] = place[axis] * 1000 + round + axis;
        }
        exchange(box, n);
        for (int axis = 0; axis < 3; axis++) {
            int middle[3] = {60, 60, 60}, before = (place[axis] + shape[axis] - 1) % shape[axis];
            middle[axis] = 0;
            double found = box[AT(n, middle[0], middle[1], middle[2])];
            must(found == before * 1000 + round + axis, "a neighbour's face");
        }
    }
    free(box);
}

/* ---- mg ---- */

enum { EDGE = 256, LEVELS = 6, CYCLES = 4 };

/* What is left of f at a point: f - u's Laplacian. */
static double rest_at(const double *u, const double *f, const int *n, double h2, int i, int j, int k) {
    size_t at = AT(n, i, j, k);
    double around = u[AT(n, i - 1, j, k)] + u[AT(n, i + 1, j, k)] + u[AT(n, i, j - 1, k)] +
                    u[AT(n, i, j + 1, k)] + u[at - 1] + u[at + 1];
    return f[at] - (around - 6 * u[at]) / h2;
}

/* One step towards the solution of u's Laplacian = f (Jacobi's, damped); the sum of squares of what is left. */
static double smooth(double *u, const double *f, const int *n, double h2) {
    double *next = room(AT(n, n[0] + 2, 0, 0) * sizeof(double)), left = 0;
    exchange(u, n);
    for (int i = 1; i <= n[0]; i++)
        for (int j = 1; j <= n[1]; j++)
            for (int k = 1; k <= n[2]; k++) {
                size_t at = AT(n, i, j, k);
                double rest = rest_at(u, f, n, h2, i, j, k);
                left += rest * rest;
                next[at] = u[at] - 0.8 * h2 / 6 * rest;
            }
    memcpy(u, next, AT(n, n[0] + 2, 0, 0) * sizeof(double));
    free(next);
    return left;
}

/* The coarse box's value in the middle of a fine point: of each axis three quarters of the nearer one. */
static double between(const double *box, const int *half, int i, int j, int k) {
    int x = (i + 1) / 2, y = (j + 1) / 2, z = (k + 1) / 2;
    int to_x = i % 2 ? -1 : 1, to_y = j % 2 ? -1 : 1, to_z = k % 2 ? -1 : 1;
    double sum = 0;
    for (int corner = 0; corner < 8; corner++) {
        int a = corner & 1, b = corner >> 1 & 1, c = corner >> 2;
        double weight = (a ? 0.25 : 0.75) * (b ? 0.25 : 0.75) * (c ? 0.25 : 0.75);
        sum += weight * box[AT(half, x + a * to_x, y + b * to_y, z + c * to_z)];
    }
    return sum;
}

static double cycle(double *u, const double *f, const int *n, double h2, int level) {
    double left = smooth(u, f, n, h2);
    smooth(u, f, n, h2);
    if (level == 0) {
        for (int i = 0; i < 20; i++) smooth(u, f, n, h2);
        return left;
    }
    int half[3] = {n[0] / 2, n[1] / 2, n[2] / 2};
    double *coarse_f = room(AT(half, half[0] + 2, 0, 0) * sizeof(double));
    double *coarse_u = room(AT(half, half[0] + 2, 0, 0) * sizeof(double));
    exchange(u, n);
    for (int i = 1; i <= n[0]; i++)
        for (int j = 1; j <= n[1]; j++)
            for (int k = 1; k <= n[2]; k++) {
                double rest = rest_at(u, f, n, h2, i, j, k);
                coarse_f[AT(half, (i + 1) / 2, (j + 1) / 2, (k + 1) / 2)] += rest / 8;
            }
    cycle(coarse_u, coarse_f, half, 4 * h2, level - 1);
    exchange(coarse_u, half);
    for (int i = 1; i <= n[0]; i++)
        for (int j = 1; j <= n[1]; j++)
            for (int k = 1; k <= n[2]; k++)
                u[AT(n, i, j, k)] += between(coarse_u, half, i, j, k);
    free(coarse_f), free(coarse_u);
    smooth(u, f, n, h2);
    return left;
}

static void mg(void) {
    lay_out();
    int n[3] = {EDGE / shape[0], EDGE / shape[1], EDGE / shape[2]};
    size_t bytes = AT(n, n[0] + 2, 0, 0) * sizeof(double);
    double *u = room(bytes), *f = room(bytes), first = 0, left = 0;
    for (int i = 1; i <= n[0]; i++)
        for (int j = 1; j <= n[1]; j++)
            for (int k = 1; k <= n[2]; k++) {
                int x = place[0] * n[0] + i, y = place[1] * n[1] + j;
                f[AT(n, i, j, k)] = sin(2 * M_PI * x / EDGE) * cos(4 * M_PI * y / EDGE);
            }
    for (int c = 0; c < CYCLES; c++) {
        left = sum_of_all(cycle(u, f, n, 1.0 / EDGE / EDGE, LEVELS - 1));
        if (c == 0) first = left;
    }
    must(left < first / 10, "rest of the equations");
    free(u), free(f);
}

/* ---- ft ---- */

enum { NX = 256, NY = 256, NZ = 128, TRANSFORMS = 3 };

/* In place, of a power of two; `sign` 1 or -1 (Cooley and Tukey, 1965). */
static void transform(double complex *a, int n, int sign, const double complex *roots) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex t = a[i];
            a[i] = a[j], a[j] = t;
        }
    }
    for (int length = 2; length <= n; length *= 2)
        for (int i = 0; i < n; i += length)
            for (int k = 0; k < length / 2; k++) {
                double complex root = roots[k * (256 / length)];
                if (sign < 0) root = conj(root);
                double complex u = a[i + k], v = a[i + k + length / 2] * root;
                a[i + k] = u + v, a[i + k + length / 2] = u - v;
            }
}

/* From planes of z at each rank to planes of x, or back. */
static void turn(double complex *from, double complex *to, double complex *flat, int is_back) {
    int z_own = NZ / ranks, x_own = NX / ranks;
    size_t block = (size_t)z_own * x_own * NY, at = 0;
    for (int r = 0; r < ranks; r++)
        for (int z = 0; z < z_own; z++)
            for (int y = 0; y < NY; y++)
                for (int x = 0; x < x_own; x++, at++) {
                    size_t by_x = ((size_t)x * NY + y) * NZ + r * z_own + z;
                    size_t by_z = ((size_t)z * NY + y) * NX + r * x_own + x;
                    flat[at] = from[is_back ? by_x : by_z];
                }
    MPI_Alltoall(flat, 2 * block, MPI_DOUBLE, to, 2 * block, MPI_DOUBLE, MPI_COMM_WORLD);
    memcpy(flat, to, ranks * block * sizeof *flat);
    at = 0;
    for (int r = 0; r < ranks; r++)
        for (int z = 0; z < z_own; z++)
            for (int y = 0; y < NY; y++)
                for (int x = 0; x < x_own; x++, at++) {
                    size_t by_x = ((size_t)x * NY + y) * NZ + r * z_own + z;
                    size_t by_z = ((size_t)z * NY + y) * NX + r * x_own + x;
                    to[is_back ? by_z : by_x] = flat[at];
                }
}

static void planes(double complex *a, int sign, const double complex *roots) {
    double complex column[NY];
    for (int z = 0; z < NZ / ranks; z++) {
        double complex *plane = a + (size_t)z * NY * NX;
        for (int y = 0; y < NY; y++) transform(plane + (size_t)y * NX, NX, sign, roots);
        for (int x = 0; x < NX; x++) {
            for (int y = 0; y < NY; y++) column[y] = plane[(size_t)y * NX + x];
            transform(column, NY, sign, roots);
            for (int y = 0; y < NY; y++) plane[(size_t)y * NX + x] = column[y];
        }
    }
}

static void ft(void) {
    size_t own = (size_t)NX * NY * NZ / ranks, lines = own / NZ;
    double complex *a = room(own * sizeof *a), *b = room(own * sizeof *a);
    double complex *flat = room(own * sizeof *a), roots[128];
    for (int k = 0; k < 128; k++) roots[k] = cexp(2 * M_PI * I * k / 256);
    for (size_t i = 0; i < own; i++) a[i] = (double)((i * 7 + rank) % 101);
    for (int round = 0; round < TRANSFORMS; round++) {
        planes(a, 1, roots);
        turn(a, b, flat, 0);
        for (size_t i = 0; i < lines; i++) transform(b + i * NZ, NZ, 1, roots);
        for (size_t i = 0; i < lines; i++) transform(b + i * NZ, NZ, -1, roots);
        turn(b, a, flat, 1);
        planes(a, -1, roots);
        for (size_t i = 0; i < own; i++) a[i] /= (double)NX * NY * NZ;
    }
    double worst = 0;
    for (size_t i = 0; i < own; i++)
        worst = fmax(worst, cabs(a[i] - (double)((i * 7 + rank) % 101)));
    must(worst < 1e-9, "what came back");
    free(a), free(b), free(flat);
}

/* ---- onesided ---- */

static void onesided(void) {
    enum { BYTES = 65536, ROUNDS = 50 };
    char *out = room(BYTES), *in;
    MPI_Win window;
    MPI_Win_allocate((MPI_Aint)BYTES * ranks, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &window);
    for (int round = 0; round < ROUNDS; round++) {
        memset(out, rank + round, BYTES);
        MPI_Win_fence(0, window);
        for (int r = 0; r < ranks; r++)
            if (r != rank)
                MPI_Put(out, BYTES, MPI_CHAR, r, (MPI_Aint)BYTES * rank, BYTES, MPI_CHAR, window);
        MPI_Win_fence(0, window);
        for (int r = 0; r < ranks; r++)
            for (int i = 0; r != rank && i < BYTES; i += 511)
                must(in[(size_t)BYTES * r + i] == (char)(r + round), "what was put");
    }
    MPI_Win_free(&window);
    free(out);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"is", is}, {"cg", cg}, {"mg", mg}, {"ft", ft}, {"halo", halo}, {"onesided", onesided}};
    int times = argc > 2 ? atoi(argv[2]) : 1;
    must(argc >= 2 && ranks <= 64 && (ranks & (ranks - 1)) == 0, "one name, and a power of two of ranks");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(argv[1], all[i].name)) continue;
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        while (times-- > 0) all[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) printf("%.3f\n", MPI_Wtime() - begin);
        MPI_Finalize();
        return 0;
    }
    must(0, "the name");
}
