"""Short Chinese queries, each with one right entry among distractors that share characters with it.

What is asked for: words inside a sentence without spaces, words that touch Latin letters, single characters, digits
and full-width letters. The query stands letter by letter in the right entry and in no other one (full-width and case
apart), so that a search that reads Chinese finds it and chance does not.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probe:
    """A query and the one entry that answers it."""

    query: str
    key: str
    text: str


PROBES = (
    Probe("框架", "stack", "用户喜欢使用Solon框架写代码"),
    Probe("使用Spring", "legacy", "旧系统使用Spring开发，明年才会重写"),
    Probe("猫", "pet", "小王家里养了一只猫，晚上总是很吵"),
    Probe("茶", "drink", "她下午只喝茶不喝咖啡"),
    Probe("过敏", "health", "客户对花生过敏，订餐时务必注意"),
    Probe("部署", "deploy", "每周五下午不要部署生产环境"),
    Probe("数据库", "storage", "订单数据库已经迁移到新机房"),
    Probe("Redis集群", "cache", "缓存层由三台机器组成Redis集群"),
    Probe("Python的教程", "course", "团队正在录制关于Python的教程"),
    Probe("私人飞机", "joke", "老板开玩笑说年底要买私人飞机"),
    Probe("上海", "city", "总部去年从上海搬走了"),
    Probe("杭州西湖", "trip", "春游地点定在杭州西湖旁边的民宿"),
    Probe("微服务", "architecture", "架构师反对把账单模块拆成微服务"),
    Probe("钢琴", "music", "女儿每周三晚上学钢琴"),
    Probe("C++", "language", "底层引擎用C++实现，接口层另有封装"),
    Probe("GPT模型", "model", "研究组比较了几种GPT模型的费用"),
    Probe("ＡＰＩ网关", "gateway", "所有请求先经过API网关再分发"),
    Probe("二零二五", "date", "合同有效期到二零二五年六月"),
    Probe("3.11", "version", "构建机上的解释器版本固定为3.11不变"),
    Probe("加班", "overtime", "项目经理承诺下个月不再加班"),
    Probe("跑步", "sport", "他坚持清晨沿着河边跑步"),
    Probe("向量检索", "search", "文档问答采用向量检索加重排的办法"),
    Probe("梦", "dream", "奶奶常说做梦都想回老家看看"),
    Probe("喜欢辣", "food", "新同事来自四川，特别喜欢辣的菜"),
    Probe("k8s", "cluster", "运维同学把测试环境搬进了k8s里面"),
    Probe("发票抬头", "invoice", "报销之前请核对发票抬头是否正确"),
    Probe("お土産", "mixed", "日本客人进门先给大家发お土産再开会"),
    Probe("深夜Deploy", "habit", "值班手册写明禁止深夜Deploy任何改动"),
)

_WHO = ("小李", "测试组", "财务部", "产品经理", "邻居", "供应商", "前台", "实习生", "顾问", "设计师")
_DOES = ("整理了书架上的", "询问过相框旁的", "借走了仓库里的", "更新了共享盘中的", "弄丢了会议室的", "重新打印了桌上的")
_WHAT = ("资料", "合影", "钥匙", "清单", "地图", "说明书", "样品", "报表", "海报", "名片")


def distractors(count: int = 240) -> list[tuple[str, str]]:
    """Return `count` different keys and texts that answer none of the queries; at most 600."""
    made: list[tuple[str, str]] = []
    for number in range(count):
        who = _WHO[number % 10]
        what = _WHAT[number // 10 % 10]
        does = _DOES[number // 100 % 6]
        made.append((f"other-{number}", f"{who}{does}{what}，第{number}号记录，架子与库房同步"))
    return made
