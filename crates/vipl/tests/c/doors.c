/* Two NICs where there is one port at which a process can be found: the first has it, the second is told so. */
#include <stdlib.h>
#include <string.h>

#include <vipl.h>

static VIP_RETURN wait_on(VIP_NIC_HANDLE nic) {
    VIP_NET_ADDRESS *own = (VIP_NET_ADDRESS *) calloc(1, 128), *from = (VIP_NET_ADDRESS *) calloc(1, 128);
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE caller;
    VIP_RETURN returned;
    /* No address is this node's; the discriminator follows at once. */
    own->DiscriminatorLen = 4;
    memcpy(own->HostAddress, "door", 4);
    returned = VipConnectWait(nic, own, 0, from, &theirs, &caller);
    free(own);
    free(from);
    return returned;
}

int main(void) {
    VIP_NIC_HANDLE first, second;
    if (VipOpenNic("tabane0", &first) != VIP_SUCCESS || VipOpenNic("tabane0", &second) != VIP_SUCCESS)
        return 1;
    if (wait_on(first) != VIP_TIMEOUT || wait_on(second) != VIP_ERROR_RESOURCE)
        return 2;
    /* It is free again when its NIC is closed. */
    if (VipCloseNic(first) != VIP_SUCCESS || wait_on(second) != VIP_TIMEOUT)
        return 3;
    return VipCloseNic(second) == VIP_SUCCESS ? 0 : 4;
}
