/* Reads the other end's memory, which does nothing meanwhile.
 *
 *   rdma_read                    has the memory
 *   rdma_read NODE [BYTES]       reads as many from the one at NODE, and looks at each */
#include "common.h"

#define BYTES_MAX ((size_t) 64 << 20)
#define PIECE ((size_t) 1 << 20)

/* What the one that has the memory tells of it. */
struct place {
    uint64_t address;
    VIP_MEM_HANDLE region;
};

static unsigned char byte_at(size_t offset) { return (unsigned char) (offset * 5 + (offset >> 11)); }

static void serve(struct end *end) {
    struct place place;
    size_t offset;
    VIP_DESCRIPTOR *descriptor;
    for (offset = 0; offset < BYTES_MAX; offset++)
        end->bytes[PIECE + offset] = byte_at(offset);
    place.address = (uint64_t) (uintptr_t) (end->bytes + PIECE);
    place.region = end->region;
    memcpy(end->bytes, &place, sizeof place);
    CHECK(VipPostSend(end->vi, prepare(end, 0, 0, sizeof place), end->region));
    CHECK(VipSendWait(end->vi, VIP_INFINITE, &descriptor));
    /* The other end says when it has all. */
    CHECK(VipRecvWait(end->vi, VIP_INFINITE, &descriptor));
}

static int read_all(struct end *end, size_t bytes) {
    struct place place;
    size_t offset;
    int under_way = 0, index = 0;
    double began, took;
    memcpy(&place, next_received(end)->Data[0].Data.Address, sizeof place);
    began = now_us();
    for (offset = 0; offset < bytes; offset += PIECE) {
        size_t piece = bytes - offset < PIECE ? bytes - offset : PIECE;
        VIP_DESCRIPTOR *descriptor = prepare_remote(end, index++ % (DESCRIPTORS / 2), PIECE + offset, piece,
                                                    place.address + offset, place.region, VIP_CONTROL_OP_RDMAREAD);
        CHECK(VipPostSend(end->vi, descriptor, end->region));
        under_way++;
        if (under_way == DESCRIPTORS / 4) {
            next_sent(end);
            under_way--;
        }
    }
    while (under_way-- > 0)
        next_sent(end);
    took = now_us() - began;
    for (offset = 0; offset < bytes; offset++)
        if (end->bytes[PIECE + offset] != byte_at(offset)) {
            fprintf(stderr, "rdma_read: byte %lu is wrong\n", (unsigned long) offset);
            return 1;
        }
    printf("%lu bytes read: %.1f MB/s\n", (unsigned long) bytes, (double) bytes / took);
    CHECK(VipPostSend(end->vi, prepare(end, 0, 0, 0), end->region));
    next_sent(end);
    return 0;
}

int main(int argc, char **argv) {
    struct end end;
    const char *node = argc > 1 ? argv[1] : NULL;
    size_t bytes = argc > 2 ? (size_t) atol(argv[2]) : (size_t) 16 << 20;
    int wrong = 0;
    if (bytes < 1 || bytes > BYTES_MAX) {
        fprintf(stderr, "rdma_read: 1 to 67108864 bytes\n");
        return 2;
    }
    open_end(&end, PIECE + BYTES_MAX);
    CHECK(VipPostRecv(end.vi, prepare(&end, DESCRIPTORS / 2, 0, PIECE), end.region));
    connect_end(&end, node, "rdma_read");
    if (end.is_server)
        serve(&end);
    else
        wrong = read_all(&end, bytes);
    close_end(&end);
    return wrong;
}
