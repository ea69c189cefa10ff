// Airy functions, for the rows that name this file as their library.
#include "kernels/pointwise/bessel.cl"

// Ai. About 0 the power series (A&S 10.4.2), above by K_1/3 (A&S 10.4.14), below by the auxiliary functions f and g of
// the asymptotic expansion (A&S 10.4.60) with the coefficients of their rational approximations in Moshier's Cephes.
static inline T airy_ai(T x)
{
    if (isinf(x))
        return NAN;
    if (x > LIT(103.892))
        return 0;
    const T root = sqrt(fabs(x)), zeta = 2 * fabs(x) * root / 3;
    if (x >= LIT(2.09))
        return sqrt(x / 3) / PI * scaled_bessel_k(LIT(1.0) / 3, zeta) * exp(-zeta);
    if (x < LIT(-2.09)) {
        const T z = 1 / zeta, y = z * z;
        T fn = LIT(-1.31696323418331795333e-1), fd = 1, gn = LIT(1.97339932091685679179e-2), gd = 1;
#define NEXT(v, c) v = v * y + LIT(c)
        NEXT(fn, -6.26456544431912369773e-1), NEXT(fn, -6.93158036036933542233e-1), NEXT(fn, -2.79779981545119124951e-1);
        NEXT(fn, -4.91900132609500318020e-2), NEXT(fn, -4.06265923594885404393e-3), NEXT(fn, -1.59276496239262096340e-4);
        NEXT(fn, -2.77649108155232920844e-6), NEXT(fn, -1.67787698489114633780e-8);
        NEXT(fd, 1.33560420706553243746e1), NEXT(fd, 3.26825032795224613948e1), NEXT(fd, 2.67367040941499554804e1);
        NEXT(fd, 9.18707402907259625840), NEXT(fd, 1.47529146771666414581), NEXT(fd, 1.15687173795188044134e-1);
        NEXT(fd, 4.40291641615211203805e-3), NEXT(fd, 7.54720348287414296618e-5), NEXT(fd, 4.51850092970580378464e-7);
        NEXT(gn, 3.91103029615688277255e-1), NEXT(gn, 1.06579897599595591108), NEXT(gn, 9.39169229816650230044e-1);
        NEXT(gn, 3.51465656105547619242e-1), NEXT(gn, 6.33888919628925490927e-2), NEXT(gn, 5.85804113048388458567e-3);
        NEXT(gn, 2.82851600836737019778e-4), NEXT(gn, 6.98793669997260967291e-6), NEXT(gn, 8.11789239554389293311e-8);
        NEXT(gn, 3.41551784765923618484e-10);
        NEXT(gd, 9.30892908077441974853), NEXT(gd, 1.98352928718312140417e1), NEXT(gd, 1.55646628932864612953e1);
        NEXT(gd, 5.47686069422975497931), NEXT(gd, 9.54293611618961883998e-1), NEXT(gd, 8.64580826352392193095e-2);
        NEXT(gd, 4.12656523824222607191e-3), NEXT(gd, 1.01259085116509135510e-4), NEXT(gd, 1.17166733214413521882e-6);
        NEXT(gd, 4.91834570062930015649e-9);
#undef NEXT
        const T phase = zeta + PI / 4;
        return (sin(phase) * (1 + y * fn / fd) - cos(phase) * (z * gn / gd)) / (sqrt(PI) * sqrt(root));
    }
    const T cube = x * x * x;
    T f = 1, g = x, a = 1, b = x;
    for (int k = 3; k < 100; k += 3) {
        a *= cube / (k * (k - 1));
        b *= cube / (k * (k + 1));
        f += a;
        g += b;
        if (!(fabs(a) > EPSILON * LIT(0.01)))
            break;
    }
    return LIT(0.355028053887817239260) * f - LIT(0.258819403792806798405) * g;
}
