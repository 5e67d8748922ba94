import { networkInterfaces } from 'node:os'

/** Whether no interface has the address ::1, as in many containers. */
export const hasNoIpv6 = !Object.values(networkInterfaces()).some((of) =>
  of?.some(({ address }) => address === '::1'),
)
