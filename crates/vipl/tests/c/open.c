/* Opens a NIC; ends with what that returned. */
#include <vipl.h>

int main(void) {
    VIP_NIC_HANDLE nic;
    VIP_RETURN returned = VipOpenNic("tabane0", &nic);
    if (returned == VIP_SUCCESS)
        VipCloseNic(nic);
    return (int) returned;
}
