/* How long patterns of communication take that the NAS Parallel Benchmarks are
 * made of: all-to-all (FT, IS), exchange with neighbours (CG, MG, LU),
 * reduction to all (all of them).
 *
 *   mpirun … patterns MILLISECONDS PATTERN:BYTES…
 *
 * PATTERN is alltoall, neighbours or allreduce; BYTES are of one message, for
 * allreduce of the vector. Every one runs for about so many milliseconds, and
 * what arrived is checked once. Rank 0 prints the mean time of one round in
 * microseconds for each, a line each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void fail(const char *what) {
    fprintf(stderr, "patterns: rank %d: %s: wrong result\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The byte that rank `from` sends to rank `to`. */
static char mark(int from, int to) {
    return (char)(1 + from * 16 + to);
}

static void alltoall(char *out, char *in, int bytes) {
    MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static void neighbours(char *out, char *in, int bytes) {
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Request requests[4];
    MPI_Irecv(in, bytes, MPI_CHAR, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + bytes, bytes, MPI_CHAR, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, bytes, MPI_CHAR, right, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(out + bytes, bytes, MPI_CHAR, left, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void allreduce(char *out, char *in, int bytes) {
    MPI_Allreduce(out, in, bytes / 8, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void check(const char *name, char *out, char *in, int bytes) {
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    memset(in, 0, (size_t)bytes * ranks);
    if (!strcmp(name, "alltoall")) {
        for (int to = 0; to < ranks; to++) {
            memset(out + (size_t)to * bytes, mark(rank, to), bytes);
        }
        alltoall(out, in, bytes);
        for (size_t i = 0; i < (size_t)bytes * ranks; i++) {
            if (in[i] != mark((int)(i / bytes), rank)) {
                fail(name);
            }
        }
    } else if (!strcmp(name, "neighbours")) {
        memset(out, mark(rank, right), bytes);
        memset(out + bytes, mark(rank, left), bytes);
        neighbours(out, in, bytes);
        for (int i = 0; i < bytes; i++) {
            if (in[i] != mark(left, rank) || in[bytes + i] != mark(right, rank)) {
                fail(name);
            }
        }
    } else {
        long *vector = (long *)out, *sum = (long *)in;
        for (int i = 0; i < bytes / 8; i++) {
            vector[i] = i + rank;
        }
        allreduce(out, in, bytes);
        for (int i = 0; i < bytes / 8; i++) {
            if (sum[i] != (long)i * ranks + (long)ranks * (ranks - 1) / 2) {
                fail(name);
            }
        }
    }
}

static double seconds(void (*round)(char *, char *, int), char *out, char *in, int bytes, long count) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < count; i++) {
        round(out, in, bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - begin;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double wanted_s = argc > 1 ? atof(argv[1]) / 1e3 : 0.1;
    for (int i = 2; i < argc; i++) {
        char *colon = strchr(argv[i], ':');
        if (colon == NULL) {
            fail(argv[i]);
        }
        *colon = 0;
        int bytes = atoi(colon + 1);
        void (*round)(char *, char *, int) = !strcmp(argv[i], "alltoall")     ? alltoall
                                             : !strcmp(argv[i], "neighbours") ? neighbours
                                                                              : allreduce;
        size_t room = (size_t)bytes * (ranks > 2 ? ranks : 2);
        char *out = calloc(1, room), *in = calloc(1, room);
        check(argv[i], out, in, bytes);
        /* How many rounds fill the time is rank 0's to say. The first guess is
         * warm-up too. */
        long count = 4;
        double took_s = seconds(round, out, in, bytes, count);
        count = (long)(wanted_s / (took_s / (double)count)) + 1;
        MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        took_s = seconds(round, out, in, bytes, count);
        if (rank == 0) {
            printf("%.3f\n", took_s / (double)count * 1e6);
        }
        free(out);
        free(in);
    }
    MPI_Finalize();
    return 0;
}
