/* How much goes through: one end sends, the other looks at each message's first bytes and says when it has all.
 *
 *   bandwidth                    receives
 *   bandwidth NODE [BYTES [COUNT]]   sends to the one at NODE COUNT messages of BYTES */
#include "common.h"

#define BYTES_MAX ((size_t) 1 << 20)
/* Messages under way. As many descriptors wait for them, so that none is without. */
#define WINDOW 16

static int receive(struct end *end, int first) {
    double began = 0, took;
    uint64_t count, expected = 0, bytes = 0;
    VIP_DESCRIPTOR *descriptor = next_received(end);
    /* The first says how many follow. */
    memcpy(&count, descriptor->Data[0].Data.Address, sizeof count);
    while (expected < count) {
        uint64_t number;
        size_t offset = (size_t) ((unsigned char *) descriptor->Data[0].Data.Address - end->bytes);
        CHECK(VipPostRecv(end->vi, prepare(end, (int) (descriptor - end->descriptors), offset, BYTES_MAX), end->region));
        descriptor = next_received(end);
        if (expected == 0)
            began = now_us();
        memcpy(&number, descriptor->Data[0].Data.Address, sizeof number);
        if (number != expected) {
            fprintf(stderr, "bandwidth: message %lu came as the %lu.\n", (unsigned long) number, (unsigned long) expected);
            return 1;
        }
        bytes += descriptor->Control.Length;
        expected++;
    }
    took = now_us() - began;
    printf("%lu messages, %lu bytes: %.1f MB/s\n", (unsigned long) count, (unsigned long) bytes, (double) bytes / took);
    CHECK(VipPostSend(end->vi, prepare(end, first - 1, 0, 0), end->region));
    next_sent(end);
    return 0;
}

static void send_all(struct end *end, size_t bytes, uint64_t count) {
    uint64_t number, under_way = 0;
    memcpy(end->bytes, &count, sizeof count);
    CHECK(VipPostSend(end->vi, prepare(end, 0, 0, sizeof count), end->region));
    next_sent(end);
    for (number = 0; number < count; number++) {
        int slot = (int) (number % WINDOW);
        size_t offset = (size_t) slot * BYTES_MAX;
        if (under_way == WINDOW) {
            next_sent(end);
            under_way--;
        }
        memcpy(end->bytes + offset, &number, sizeof number);
        CHECK(VipPostSend(end->vi, prepare(end, slot, offset, bytes), end->region));
        under_way++;
    }
    while (under_way-- > 0)
        next_sent(end);
    /* The other end has all. */
    next_received(end);
}

int main(int argc, char **argv) {
    struct end end;
    const char *node = argc > 1 ? argv[1] : NULL;
    size_t bytes = argc > 2 ? (size_t) atol(argv[2]) : 65536;
    uint64_t count = argc > 3 ? (uint64_t) atol(argv[3]) : 1000;
    int index, first = DESCRIPTORS / 2, wrong = 0;
    if (bytes < sizeof count || bytes > BYTES_MAX) {
        fprintf(stderr, "bandwidth: 8 to 1048576 bytes\n");
        return 2;
    }
    open_end(&end, WINDOW * BYTES_MAX);
    for (index = 0; index < WINDOW; index++)
        CHECK(VipPostRecv(end.vi, prepare(&end, first + index, (size_t) index * BYTES_MAX, BYTES_MAX), end.region));
    connect_end(&end, node, "bandwidth");
    if (end.is_server)
        wrong = receive(&end, first);
    else
        send_all(&end, bytes, count);
    if (end.is_server) {
        VIP_VI_STATE state = VIP_STATE_CONNECTED;
        VIP_VI_ATTRIBUTES attributes;
        VIP_BOOLEAN sends, receives;
        while (state == VIP_STATE_CONNECTED)
            CHECK(VipQueryVi(end.vi, &state, &attributes, &sends, &receives));
    }
    CHECK(VipDisconnect(end.vi));
    /* The descriptors that wait are flushed. */
    for (;;) {
        VIP_DESCRIPTOR *flushed;
        if (VipRecvDone(end.vi, &flushed) == VIP_NOT_DONE)
            break;
    }
    close_end(&end);
    return wrong;
}
