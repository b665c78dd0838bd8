/* What all ranks do together: a ring, everybody's bytes to everybody, a window that everybody writes into. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1 << 18, ROUNDS = 8 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    int passed = 0;
    for (int round = 0; round < 100; round++) {
        if (rank > 0) MPI_Recv(&passed, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        passed++;
        MPI_Send(&passed, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD);
        if (rank == 0) MPI_Recv(&passed, 1, MPI_INT, ranks - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0) wrong += passed != 100 * ranks;

    int *out = malloc(sizeof(int) * LENGTH * ranks), *in = malloc(sizeof(int) * LENGTH * ranks);
    for (int round = 0; round < ROUNDS; round++) {
        for (int to = 0; to < ranks; to++)
            for (int i = 0; i < LENGTH; i++) out[to * LENGTH + i] = i + 1000 * rank + to + round;
        MPI_Alltoall(out, LENGTH, MPI_INT, in, LENGTH, MPI_INT, MPI_COMM_WORLD);
        for (int from = 0; from < ranks; from++)
            for (int i = 0; i < LENGTH; i++)
                wrong += in[from * LENGTH + i] != i + 1000 * from + rank + round;
    }

    MPI_Win window;
    MPI_Win_create(in, (MPI_Aint)sizeof(int) * LENGTH * ranks, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < LENGTH; i++) out[i] = i ^ rank;
    for (int to = 0; to < ranks; to++)
        MPI_Put(out, LENGTH, MPI_INT, to, (MPI_Aint)rank * LENGTH, LENGTH, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < LENGTH; i++) wrong += in[from * LENGTH + i] != (i ^ from);
    /* All add to one number, one after the other, and to many at once. */
    int one = 1, before;
    in[0] = 0;
    for (int i = 1; i < LENGTH; i++) in[i] = i;
    MPI_Win_fence(0, window);
    for (int round = 0; round < 100; round++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_fence(0, window);
    if (rank == 0) wrong += in[0] != 100 * ranks;
    MPI_Accumulate(out + 1, LENGTH - 1, MPI_INT, 0, 1, LENGTH - 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 1; rank == 0 && i < LENGTH; i++) {
        int all = i;
        for (int from = 0; from < ranks; from++) all += i ^ from;
        wrong += in[i] != all;
    }
    MPI_Win_free(&window);

    int sum;
    MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum == 0) printf("all of it\n");
    MPI_Finalize();
    return sum != 0;
}
