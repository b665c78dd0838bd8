/* A process that opens a NIC and forks: the NIC stays its own, and the fork may open another. */
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vipl.h>

int main(void) {
    VIP_NIC_HANDLE nic, other;
    VIP_NIC_ATTRIBUTES attributes;
    pid_t child;
    int status;
    if (VipOpenNic("tabane0", &nic) != VIP_SUCCESS)
        return 1;
    child = fork();
    if (child == 0) {
        if (VipQueryNic(nic, &attributes) != VIP_INVALID_PARAMETER || VipCloseNic(nic) != VIP_INVALID_PARAMETER)
            _exit(2);
        if (VipOpenNic("tabane0", &other) != VIP_SUCCESS || VipCloseNic(other) != VIP_SUCCESS)
            _exit(3);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        return 4;
    return VipQueryNic(nic, &attributes) == VIP_SUCCESS && VipCloseNic(nic) == VIP_SUCCESS ? 0 : 5;
}
