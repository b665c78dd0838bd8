/* Two processes, of which one sends and ends without closing anything. `ends server WHO` receives; `ends client WHO` sends. */
#include "../../examples/common.h"

#define MESSAGES 8
#define BYTES 1000

int main(int argc, char **argv) {
    struct end end;
    VIP_DESCRIPTOR *descriptor;
    int index;
    if (argc != 3)
        return 2;
    open_end(&end, 65536);
    for (index = 0; index < MESSAGES; index++)
        CHECK(VipPostRecv(end.vi, prepare(&end, 64 + index, (size_t) index * BYTES, BYTES), end.region));
    connect_end(&end, strcmp(argv[1], "client") == 0 ? "localhost" : NULL, argv[2]);
    for (index = 0; index < MESSAGES; index++) {
        if (end.is_server) {
            CHECK(VipRecvWait(end.vi, VIP_INFINITE, &descriptor));
            if (descriptor->Control.Length != BYTES)
                return 3;
        } else {
            CHECK(VipPostSend(end.vi, prepare(&end, index, 0, BYTES), end.region));
            CHECK(VipSendWait(end.vi, VIP_INFINITE, &descriptor));
        }
    }
    return 0;
}
