/* How long a message takes: both ends answer each other at once.
 *
 *   pingpong                     waits for the other end
 *   pingpong NODE [BYTES]        calls the one at NODE (a name of VipNSGetHostByName, or an address) */
#include "common.h"

#define ROUNDS 2000

int main(int argc, char **argv) {
    struct end end;
    const char *node = argc > 1 ? argv[1] : NULL;
    size_t bytes = argc > 2 ? (size_t) atol(argv[2]) : 8;
    int round, first = DESCRIPTORS / 2;
    double began;
    VIP_DESCRIPTOR *received;
    if (bytes > 65536) {
        fprintf(stderr, "pingpong: 65536 bytes at most\n");
        return 2;
    }
    open_end(&end, 2 * 65536);
    CHECK(VipPostRecv(end.vi, prepare(&end, first, 0, 65536), end.region));
    connect_end(&end, node, "pingpong");
    began = now_us();
    for (round = 0; round < ROUNDS; round++) {
        if (!end.is_server) {
            end.bytes[65536] = (unsigned char) round;
            CHECK(VipPostSend(end.vi, prepare(&end, 0, 65536, bytes), end.region));
            next_sent(&end);
        }
        received = next_received(&end);
        bytes = received->Control.Length;
        if (bytes > 0 && end.bytes[0] != (unsigned char) round) {
            fprintf(stderr, "pingpong: round %d has another's bytes\n", round);
            return 1;
        }
        if (end.is_server) {
            /* It is used again before the other end can send the next. */
            end.bytes[65536] = end.bytes[0];
            CHECK(VipPostRecv(end.vi, prepare(&end, first, 0, 65536), end.region));
            CHECK(VipPostSend(end.vi, prepare(&end, 0, 65536, bytes), end.region));
            next_sent(&end);
        } else {
            CHECK(VipPostRecv(end.vi, prepare(&end, first, 0, 65536), end.region));
        }
    }
    printf("%lu bytes: %.2f us one way\n", (unsigned long) bytes, (now_us() - began) / ROUNDS / 2);
    if (end.is_server) {
        /* Who called ends it: the last message is there when it does. */
        VIP_VI_STATE state = VIP_STATE_CONNECTED;
        VIP_VI_ATTRIBUTES attributes;
        VIP_BOOLEAN sends, receives;
        while (state == VIP_STATE_CONNECTED)
            CHECK(VipQueryVi(end.vi, &state, &attributes, &sends, &receives));
    }
    CHECK(VipDisconnect(end.vi));
    /* The descriptor that waits is flushed. */
    if (VipRecvDone(end.vi, &received) != VIP_DESCRIPTOR_ERROR) {
        fprintf(stderr, "pingpong: a descriptor was not flushed\n");
        return 1;
    }
    close_end(&end);
    return 0;
}
