"""The hand-written word tables of English and Russian. Pure data; `checks.facts.lexicon` gives them meaning.

Words are separated by white space, lower case, ё written as е. In pair tables a row is `word:opposite,opposite` or
`word,word,word`.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NEGATORS = _words(
    """
    not no never none nobody nothing nowhere neither nor without cannot hardly
    не нет ни без никогда никто ничто ничего нельзя невозможно никакой никаких
    """
)
STOP = _words(
    """
    a an the of in on at to for from by with as is are was were be been being am do does did done have has had
    having will would shall this that these those it its he him his she her hers they them their theirs we us our
    ours you your yours i me my mine and or but so than then there here which who whom whose what where how why also
    too very just such into onto about itself themselves himself herself both either each other another s d m o
    up out over under through while because question answer yes when whenever per via
    и а но или да же ли бы то это этот эта эти этого этой этих этом тот та те того той тех он она оно они его ее их
    ему ей им я ты мы вы мой твой наш ваш свой своей своих свою в во на с со к ко по из за от до для о об обо при у
    над под про через между что как так где кто чей который которая которые которого которой которых был была было
    были быть есть является являются также тоже еще уже лишь бы вот там тут вопрос ответ когда чтобы
    """
)
# Words that carry a statement's frame but rarely its substance: less weight when uncovered.
LIGHT = _words(
    """
    wear wears worn wearing heavy long tall much far find finds found see sees seen look looks put set sets
    bring brings want wants like mean means called former please note notes become remain remains stay stays get
    gets got getting make makes made making take takes took taken taking give gives gave given use uses used
    using come comes came go goes went provide provides provided offer offers offered include includes included
    including contain contains contained need needs needed keep keeps kept let lets became becomes seem seems
    say says said state states stated call known name named part kind type way thing things people person one
    ones number amount total value however therefore moreover additionally still well many several various
    certain currently now today according document information company product customer customers user users
    able possible есть имеет имеют иметь можно может могут стал стала стали составляет составляют находится
    находятся использует используется человек люди очень
    """
)

# group -> value -> words. A fact and its evidence clash when they name different values of one group in one place.
# The signs stand for phrases: ≥ "at least", ≤ "at most", ≫ "more than", ≪ "less than".
OPERATOR_GROUPS: dict[str, dict[str, frozenset[str]]] = {
    "order": {
        "before": _words("before prior earlier ahead перед раньше прежде"),
        "after": _words("after following later once после позже спустя"),
        "until": _words("until till"),
        "during": _words("during while throughout"),
    },
    "bound": {
        "min": _words("≥ minimum"),
        "max": _words("≤ maximum"),
        "gt": _words("≫"),
        "lt": _words("≪"),
        "exact": _words("exactly ровно"),
    },
    "amount": {
        "more": _words("more greater higher longer larger bigger above exceed exceeds больше более выше дольше"),
        "less": _words("less fewer lower shorter smaller below меньше менее ниже короче"),
    },
    "superlative": {
        "most": _words("highest largest biggest longest greatest наибольший крупнейший самый"),
        "least": _words("lowest smallest shortest least наименьший"),
    },
    "share": {
        "all": _words(
            """
            all every each everyone everything always entire entirely все всех всем всегда каждый каждая
            каждого
            """
        ),
        "some": _words("some sometimes partly partially few occasionally некоторые иногда часть"),
        "most": _words("most mostly usually often generally majority большинство обычно часто"),
        "only": _words("only solely exclusively just только лишь исключительно"),
        "no": _words("rarely seldom редко"),
    },
    "mode": {
        "must": _words(
            """
            must required requires require mandatory obligatory compulsory shall должен должна должны обязан
            обязательно
            """
        ),
        "may": _words("may can could optional optionally allowed permitted might может могут можно вправе"),
        "should": _words("should recommended следует рекомендуется"),
    },
    "inclusion": {
        "in": _words("including inclusive включая"),
        "out": _words("except excluding кроме исключая"),
    },
    "condition": {
        "if": _words("if если"),
        "unless": _words("unless"),
    },
    "side": {
        "left": _words("left левый левая левой слева"),
        "right": _words("right правый правая правой справа"),
    },
    "level": {
        "upper": _words("top upper верхний верхняя верхней сверху"),
        "lower": _words("bottom нижний нижняя нижней снизу"),
    },
    "turn": {
        "first": _words("first earliest первый первая"),
        "last": _words("last latest final последний последняя"),
    },
    "place": {
        "in": _words("inside indoors indoor внутри"),
        "out": _words("outside outdoors outdoor снаружи"),
    },
}

EXCLUSIVE_SETS = tuple(
    _words(row)
    for row in """
    monday tuesday wednesday thursday friday saturday sunday
    january february march april may june july august september october november december
    spring summer autumn winter
    red green blue yellow black white orange purple grey gray brown pink silver
    north south east west
    morning afternoon evening night noon midnight
    daily weekly monthly yearly annually hourly quarterly annual
    second minute hour day week month year decade
    single double triple
    понедельник вторник среда четверг пятница суббота воскресенье
    весна лето осень зима
    красный зеленый синий желтый черный белый
    север юг восток запад
    утро день вечер ночь
    секунда минута час сутки неделя месяц год
    """.strip().splitlines()
)
OPPOSITES = _rows(
    """
    increase:decrease,reduce,fall,drop,decline rise:fall,drop,decline grow:shrink,decline raise:lower,reduce
    open:close,closed,shut allow:forbid,prohibit,ban,prevent,block permit:forbid,prohibit,ban
    permitted:forbidden,prohibited allowed:forbidden,prohibited,banned enable:disable enabled:disabled
    include:exclude included:excluded,extra accept:reject,refuse,decline accepted:rejected,refused
    free:paid,charged,chargeable cheap:expensive hot:cold warm:cool,cold wet:dry clean:dirty full:empty fast:slow
    quick:slow early:late new:old,used start:end,stop,finish begin:end,finish enter:leave,exit arrive:depart
    buy:sell win:lose gain:lose succeed:fail pass:fail lock:unlock locked:unlocked attach:detach,remove
    add:remove,subtract insert:remove push:pull public:private internal:external indoor:outdoor inside:outside
    front:back,rear forward:backward safe:dangerous,unsafe hard:soft,easy difficult:easy strong:weak heavy:light
    thick:thin wide:narrow deep:shallow long:short tall:short big:small large:small high:low maximum:minimum
    major:minor majority:minority more:less,fewer positive:negative true:false correct:wrong,incorrect
    right:wrong,left legal:illegal active:inactive present:absent optional:mandatory,required,compulsory
    voluntary:mandatory automatic:manual automatically:manually permanent:temporary permanently:temporarily
    domestic:foreign,international import:export north:south east:west first:last birth:death born:died alive:dead
    day:night summer:winter morning:evening adult:child male:female man:woman men:women father:mother brother:sister
    husband:wife son:daughter king:queen boy:girl love:hate like:dislike support:oppose agree:disagree attack:defend
    connect:disconnect on:off wired:wireless waterproof:water-permeable refundable:nonrefundable
    renewable:nonrenewable digital:analogue,analog solid:liquid gain:loss profit:loss income:expense credit:debit
    deposit:withdrawal online:offline upstairs:downstairs above:below before:after over:under up:down better:worse
    best:worst
    увеличить:уменьшить,снизить увеличился:уменьшился,снизился рост:падение,снижение выше:ниже больше:меньше
    открыт:закрыт открыть:закрыть разрешено:запрещено разрешен:запрещен разрешить:запретить включает:исключает
    включить:выключить,отключить бесплатный:платный бесплатно:платно горячий:холодный теплый:холодный новый:старый
    первый:последний начало:конец начать:закончить до:после левый:правый верхний:нижний максимум:минимум
    максимальный:минимальный высокий:низкий большой:маленький,малый длинный:короткий быстрый:медленный
    сильный:слабый легкий:тяжелый,трудный внутренний:внешний мужчина:женщина победа:поражение победить:проиграть
    купить:продать день:ночь летом:зимой утром:вечером север:юг восток:запад всегда:никогда все:никто хороший:плохой
    лучше:хуже положительный:отрицательный вперед:назад автоматически:вручную
    обязательный:необязательный,добровольный постоянный:временный
    """
)
RELATED = _rows(
    """
    cost,price,fee,charge,pay,tariff free,complimentary,gratis,no-cost return,bring,send last,run,endure repair,fix
    buy,purchase,order phone,telephone,call bike,bicycle,cycle photo,picture image,picture weigh,weight
    measure,dimension wide,width high,height long,length deep,depth old,age begin,start,launch,introduce
    found,establish,set built,construct make,manufacture,produce,build locate,situate,base headquarter,base
    ship,deliver,dispatch send,ship warranty,guarantee refund,reimburse,repay wash,clean replace,change,swap
    store,keep app,application require,need,must permit,allow forbid,prohibit,ban close,shut end,finish,stop
    show,display about,regarding hire,employ staff,employee,worker firm,company,business
    boss,chief,head,ceo,director customer,client,buyer,user rider,user,customer roughly,approximately
    maximum,most,max minimum,min,least yearly,annual,annually,year monthly,month weekly,week daily,day hourly,hour
    colour,color litre,liter metre,meter grey,gray kids,child people,person
    left,leave found,find
    died,death born,birth
    run,apply run,operate hold,keep hold,store rent,hire,borrow carry,hold,transport,load travel,ride,go
    report,notify,inform,tell reach,attain find,locate choose,select,pick wear,use get,receive,obtain
    halt,stop,suspend help,support,assist launch,release,introduce remove,drop,delete answer,reply,respond
    lead,head,run speed,fast large,big small,little located,situated purpose,aim near,close quick,fast
    happen,occur journey,trip,ride vehicle,bicycle vehicle,car pay,cost fee,fine bill,charge,invoice
    work,function,operate fit,mount,install,equip consist,contain,comprise employ,work site,location,place
    inspect,check,examine prohibit,forbid smartphone,phone website,site,online e-mail,email,mail
    licence,license metre,meter tyre,tire centre,center catalogue,catalog programme,program
    стоит,стоимость,цена купить,покупка,приобрести начать,начало основан,создан,основание километр,км
    руководитель,глава,директор
    """
)
# Forms that no stemmer takes back: form,base.
IRREGULAR = _rows(
    """
    children,child men,man women,woman bought,buy sold,sell held,hold kept,keep lost,lose made,make paid,pay
    ran,run said,say sent,send came,come went,go began,begin begun,begin broke,break broken,break built,build
    chose,choose chosen,choose drove,drive fell,fall felt,feel gave,give given,give grew,grow grown,grow
    knew,know known,know led,lead met,meet rose,rise risen,rise saw,see seen,see spoke,speak spent,spend
    stood,stand taken,take took,take taught,teach told,tell thought,think understood,understand wore,wear
    won,win wrote,write written,write got,get gone,go brought,bring caught,catch drawn,draw drew,draw
    fallen,fall driven,drive eaten,eat flew,fly flown,fly forgotten,forget hidden,hide laid,lay lent,lend
    meant,mean ridden,ride rode,ride shown,show sang,sing sank,sink slept,sleep sought,seek spoken,speak
    stolen,steal struck,strike swam,swim threw,throw thrown,throw torn,tear worn,wear woke,wake feet,foot
    teeth,tooth mice,mouse
    """
)
