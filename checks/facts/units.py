"""Units, scales, number words and calendar names of English and Russian, as tables.

Pure data: it does not know how text is scanned. A unit is `(dimension, factor to the dimension's base unit)`;
two quantities compare only inside one dimension. A month is its own dimension because it has no fixed length.
"""

from __future__ import annotations

Unit = tuple[str, float]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(rows: dict[tuple[str, float], str]) -> dict[str, Unit]:
    return {form: unit for unit, forms in rows.items() for form in forms.split()}


# Forms are lower case; forms whose case matters (mW, MW) are left out rather than read wrongly.
UNITS: dict[str, Unit] = _table(
    {
        ("length", 0.001): "mm millimetre millimetres millimeter millimeters мм миллиметр миллиметра миллиметров",
        ("length", 0.01): "cm centimetre centimetres centimeter centimeters см сантиметр сантиметра сантиметров",
        ("length", 1.0): "m metre metres meter meters м метр метра метров метрах метре",
        ("length", 1000.0): "km kms kilometre kilometres kilometer kilometers км километр километра километров",
        ("length", 0.0254): "inch inches дюйм дюйма дюймов",
        ("length", 0.3048): "ft foot feet фут фута футов",
        ("length", 0.9144): "yd yard yards ярд ярда ярдов",
        ("length", 1609.344): "mi mile miles миля мили миль",
        ("mass", 1e-6): "mg milligram milligrams мг миллиграмм миллиграмма миллиграммов",
        ("mass", 0.001): "g gram grams gramme grammes г гр грамм грамма граммов",
        (
            "mass",
            1.0,
        ): "kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes кг килограмм килограмма килограммов",
        ("mass", 1000.0): "tonne tonnes ton tons тонна тонны тонн",
        ("mass", 0.45359237): "lb lbs pound pounds фунт фунта фунтов",
        ("mass", 0.028349523125): "oz ounce ounces унция унции унций",
        ("time", 0.001): "ms millisecond milliseconds мс миллисекунда миллисекунды миллисекунд",
        ("time", 1.0): "s sec secs second seconds сек секунда секунды секунд секунду",
        ("time", 60.0): "min mins minute minutes мин минута минуты минут минуту",
        ("time", 3600.0): "h hr hrs hour hours ч час часа часов",
        ("time", 86400.0): "day days день дня дней дни сутки суток",
        ("time", 604800.0): "week weeks неделя недели недель неделю",
        ("calendar", 1.0): "month months мес месяц месяца месяцев",
        ("calendar", 12.0): "year years yr yrs год года лет году",
        ("calendar", 120.0): "decade decades десятилетие десятилетия десятилетий",
        ("calendar", 1200.0): "century centuries век века веков столетие столетия",
        ("volume", 0.001): "ml millilitre millilitres milliliter milliliters мл миллилитр миллилитра миллилитров",
        ("volume", 1.0): "l litre litres liter liters л литр литра литров",
        ("volume", 3.785411784): "gallon gallons галлон галлона галлонов",
        ("power", 1.0): "w watt watts вт ватт ватта",
        ("power", 1000.0): "kw kilowatt kilowatts квт киловатт",
        ("energy", 1.0): "wh",
        ("energy", 1000.0): "kwh квтч",
        ("charge", 1.0): "mah",
        ("charge", 1000.0): "ah",
        ("voltage", 1.0): "v volt volts в вольт вольта",
        ("current", 1.0): "amp amps ampere amperes ампер ампера",
        ("data", 1e3): "kb kilobyte kilobytes кб килобайт",
        ("data", 1e6): "mb megabyte megabytes мб мегабайт",
        ("data", 1e9): "gb gigabyte gigabytes гб гигабайт",
        ("data", 1e12): "tb terabyte terabytes тб терабайт",
        ("frequency", 1.0): "hz hertz гц герц",
        ("frequency", 1e3): "khz кгц",
        ("frequency", 1e6): "mhz мгц",
        ("frequency", 1e9): "ghz ггц",
        ("pressure", 1.0): "bar bars бар",
        ("pressure", 0.0689475729): "psi",
        ("loudness", 1.0): "db decibel decibels дб децибел",
        ("speed", 1.0): "km/h kmh kph км/ч",
        ("speed", 1.609344): "mph",
        ("speed", 3.6): "m/s м/с",
        ("area", 1.0): "m² м²",
        ("temperature", 1.0): "°c ℃ celsius цельсия",
        ("temperature_f", 1.0): "°f ℉ fahrenheit",
        ("degree", 1.0): "° degree degrees градус градуса градусов",
        ("percent", 1.0): "% percent percents pct процент процента процентов процентах",
        ("eur", 1.0): "€ eur euro euros евро",
        ("eur", 0.01): "cent cents",
        ("usd", 1.0): "$ usd dollar dollars доллар доллара долларов",
        ("gbp", 1.0): "£ gbp",
        ("rub", 1.0): "₽ rub руб рубль рубля рублей",
    }
)
CURRENCY_PREFIXES = {"€": "eur", "$": "usd", "£": "gbp", "₽": "rub", "eur": "eur", "usd": "usd", "gbp": "gbp"}
# One letter after a number is a unit only where it stands at once behind it ("5 m"), never as a lone word elsewhere.
SCALES: dict[str, float] = {
    form: factor
    for factor, forms in {
        1e2: "hundred hundreds",
        1e3: "thousand thousands k тыс тысяча тысячи тысяч тысячу",
        1e6: "million millions mln m миллион миллиона миллионов млн",
        1e9: "billion billions bn миллиард миллиарда миллиардов млрд",
        1e12: "trillion trillions триллион триллиона триллионов трлн",
        12.0: "dozen dozens дюжина дюжины дюжин",
    }.items()
    for form in forms.split()
}
SMALL_NUMBERS: dict[str, float] = {
    form: float(value)
    for value, forms in {
        0: "zero ноль нуль",
        1: "one один одна одно одного одной одну",
        2: "two два две двух двум двумя",
        3: "three три трех трем тремя",
        4: "four четыре четырех четырем",
        5: "five пять пяти пятью",
        6: "six шесть шести шестью",
        7: "seven семь семи семью",
        8: "eight восемь восьми",
        9: "nine девять девяти",
        10: "ten десять десяти",
        11: "eleven одиннадцать одиннадцати",
        12: "twelve двенадцать двенадцати",
        13: "thirteen тринадцать тринадцати",
        14: "fourteen четырнадцать четырнадцати",
        15: "fifteen пятнадцать пятнадцати",
        16: "sixteen шестнадцать шестнадцати",
        17: "seventeen семнадцать семнадцати",
        18: "eighteen восемнадцать восемнадцати",
        19: "nineteen девятнадцать девятнадцати",
        20: "twenty двадцать двадцати",
        30: "thirty тридцать тридцати",
        40: "forty сорок сорока",
        50: "fifty пятьдесят пятидесяти",
        60: "sixty шестьдесят шестидесяти",
        70: "seventy семьдесят семидесяти",
        80: "eighty восемьдесят восьмидесяти",
        90: "ninety девяносто",
        100: "сто ста",
        200: "двести двухсот",
        300: "триста трехсот",
        400: "четыреста",
        500: "пятьсот пятисот",
    }.items()
    for form in forms.split()
}
ORDINALS: dict[str, float] = {
    form: float(value)
    for value, forms in {
        1: "first первый первая первое первого первой первом",
        2: "second второй вторая второе второго втором",
        3: "third третий третья третье третьего третьем",
        4: "fourth четвертый четвертая четвертое четвертого",
        5: "fifth пятый пятая пятое пятого",
        6: "sixth шестой шестая шестого",
        7: "seventh седьмой седьмая седьмого",
        8: "eighth восьмой восьмая восьмого",
        9: "ninth девятый девятая девятого",
        10: "tenth десятый десятая десятого",
        11: "eleventh",
        12: "twelfth",
        20: "twentieth двадцатый двадцатого",
    }.items()
    for form in forms.split()
}
MONTHS: dict[str, int] = {
    form: number
    for number, forms in enumerate(
        (
            "january jan январь января январе",
            "february feb февраль февраля феврале",
            "march mar март марта марте",
            "april apr апрель апреля апреле",
            "may май мая мае",
            "june jun июнь июня июне",
            "july jul июль июля июле",
            "august aug август августа августе",
            "september sep sept сентябрь сентября сентябре",
            "october oct октябрь октября октябре",
            "november nov ноябрь ноября ноябре",
            "december dec декабрь декабря декабре",
        ),
        start=1,
    )
    for form in forms.split()
}
APPROXIMATORS = _words(
    """
    about almost approximately around circa near nearly over roughly some более около порядка почти приблизительно
    примерно свыше
    """
)
