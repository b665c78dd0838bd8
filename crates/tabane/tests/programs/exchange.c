/* Two ranks each send each other messages of many lengths and compare what comes with what must. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 4 << 20, ROUNDS = 12 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int other = rank ^ 1;
    unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);
    for (int round = 0; round < ROUNDS; round++) {
        for (int length = 1; length <= LONGEST; length *= 4) {
            for (int i = 0; i < length; i++) out[i] = (unsigned char)(i * 31 + round + rank);
            MPI_Sendrecv(out, length, MPI_BYTE, other, round, in, length, MPI_BYTE, other,
                         round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < length; i++)
                wrong += in[i] != (unsigned char)(i * 31 + round + other);
        }
    }
    int sum;
    MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum == 0) printf("all of it\n");
    MPI_Finalize();
    return sum != 0;
}
