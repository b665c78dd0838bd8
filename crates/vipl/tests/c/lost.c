/* Two processes that are connected. `lost server WHO` waits for a caller, and then for ever; `lost client WHO` says that it is
 * connected, and ends well when the other one is gone. */
#include "../../examples/common.h"

int main(int argc, char **argv) {
    struct end end;
    VIP_DESCRIPTOR *descriptor;
    if (argc != 3)
        return 2;
    open_end(&end, 4096);
    CHECK(VipPostRecv(end.vi, prepare(&end, 64, 0, 64), end.region));
    connect_end(&end, strcmp(argv[1], "client") == 0 ? "localhost" : NULL, argv[2]);
    if (end.is_server) {
        VipRecvWait(end.vi, VIP_INFINITE, &descriptor);
        return 3;
    }
    puts("connected");
    fflush(stdout);
    /* The descriptor that waits is told of, and the VI is in error. */
    if (VipRecvWait(end.vi, VIP_INFINITE, &descriptor) != VIP_DESCRIPTOR_ERROR)
        return 4;
    if (descriptor->Control.Status & ~(VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_TRANSPORT_ERROR |
                                       VIP_STATUS_DESC_FLUSHED_ERROR))
        return 5;
    close_end(&end);
    return 0;
}
