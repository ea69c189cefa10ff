// What files of special functions share; T is float or double.
#ifdef T_DOUBLE
#define EPSILON 1.1e-16
#define LARGE_BESSEL 25.0       // from here on the asymptotic series reach full precision
#else
#define EPSILON 6e-8f
#define LARGE_BESSEL 12.0f
#endif
#define PI LIT(3.14159265358979323846)
#define EULER LIT(0.57721566490153286061)
